//! The options of `knee commute check`.

use std::path::PathBuf;

use clap::builder::PossibleValuesParser;
use knee_commute::Wanted;
use knee_trace::findings::Shard;
use knee_trace::{CheckOptions, Disk, Emulator, GuestKernel, GuestOptions};

use super::super::sets::Sets;
use crate::args::whole;

/// The file system that requires no disk.
const TMPFS: &str = "tmpfs";

/// Check whether commuting calls share memory in a real kernel or library, traced under QEMU
///
/// knee generates tests of POSIX calls that commute, and runs them on an unmodified kernel. knee
/// makes the calls of each test one after the other, each on its own virtual CPU, and records what
/// memory the kernel reads and writes during each call. A conflict is a cache line (64 bytes) that
/// two calls access and that at least one of the two writes. When real cores make these calls at
/// the same time, a conflict makes the cores wait for each other.
///
/// If a test shows conflicts, knee runs it again. knee reports conflicts separately if they occur
/// only in some runs, or only because of where objects happen to lie in memory. The results do not
/// depend on the size or speed of this machine.
///
/// With --program, knee checks a library instead, and does not trace the kernel (see
/// docs/libraries.md).
#[derive(clap::Args)]
#[command(after_help = "Examples:
  knee commute check stat rename                        one pair, running kernel
  knee commute check open --kernel bookworm             every pair with open
  knee commute check --kernel ./vmlinuz-6.12 --json > 6.12.jsonl
  knee commute check link unlink --kernel bookworm --fs xfs
  knee commute check link unlink --calls 3 --kernel bookworm    this pair and any
                                                        third call, on 3 CPUs
  knee commute tests | shuf -n 2000 | knee commute check --tests -
  knee commute check --kernel trixie -o 6.12            keep a record
  knee commute check --kernel trixie -o 6.12 --resume   resume this record
  knee commute check --kernel trixie -o part/2 --shard 2/4    one of four machines
  knee commute check close close --trace close,close/3.1    every memory access
  knee commute check --guest-kernel target/x86_64-unknown-none/release/knee-kernel
                                                        the kernel around knee-vm
  knee commute check --program ./my-binding             a library instead of a kernel
  knee commute check --program ./my-binding --kernel trixie    in a guest
  knee commute check --program ./my-binding -o new && knee commute diff base new

Exit status:
  1  a call returned a result that the model does not allow
  4  a guest or a program crashed in a test")]
pub(crate) struct Args {
    #[command(flatten)]
    pub(super) sets: Sets,

    /// Maximum number of tests to generate for one situation
    #[arg(long, value_name = "N", default_value_t = Wanted::default().patterns,
          value_parser = whole::<usize>(1..=1_000_000))]
    pub(super) patterns: usize,

    /// File of tests from `knee commute tests`; - is standard input
    #[arg(long, value_name = "FILE", conflicts_with_all = ["operations", "calls", "patterns"])]
    pub(super) tests: Option<PathBuf>,

    /// Kernel: the path of an image or a Debian kernel package, with a slash (./vmlinuz), or a Debian
    /// release whose kernel knee fetches [default: the running kernel]. With --program, knee runs the
    /// program in a guest with this kernel
    #[arg(long, value_name = "FILE|RELEASE")]
    pub(super) kernel: Option<PathBuf>,

    /// Build of knee's own kernel (the crate knee-kernel); knee checks the calls that this kernel has:
    /// mmap, munmap, mprotect, and loads and stores (memread, memwrite)
    #[arg(long, value_name = "FILE", conflicts_with_all = ["kernel", "program", "fs"])]
    pub(super) guest_kernel: Option<PathBuf>,

    /// Program that binds a library to a model of its interface (crate knee-bind); knee checks the
    /// library with the tests of that model. The program runs under QEMU's user-mode emulator
    /// (qemu-x86_64). If this emulator is missing or does not support plugins, the program runs in
    /// a guest with the kernel of Debian 12
    #[arg(long, value_name = "FILE", conflicts_with = "fs")]
    pub(super) program: Option<PathBuf>,

    /// File system for the test files: tmpfs, or a file system on a RAM disk of the guest
    /// (requires mkfs.NAME on this machine)
    #[arg(long, value_name = "NAME", default_value = TMPFS, value_parser = file_systems())]
    pub(super) fs: String,

    /// New directory for the record of the results
    #[arg(short, long, value_name = "DIR")]
    pub(super) output: Option<PathBuf>,

    /// Shard of the tests: every N-th test, starting with the I-th; with --calls 3 or 4, the tests
    /// of every N-th set of operations
    #[arg(long, value_name = "I/N", default_value_t = Shard::WHOLE)]
    pub(super) shard: Shard,

    /// If the --output directory contains a record, run only the tests missing from this record
    #[arg(long, requires = "output")]
    pub(super) resume: bool,

    /// ID of a test to run alone; knee prints every memory access of the test's calls
    #[arg(long, value_name = "TEST", conflicts_with_all = ["output", "shard", "program"])]
    pub(super) trace: Option<String>,

    /// Print one line of JSON for each test or, with --trace, for each access
    #[arg(long)]
    pub(super) json: bool,
}

impl Args {
    /// The options of the check: the QEMU, and the file system that the user requested.
    pub(super) fn options(
        &self,
        kernel: &GuestKernel,
        emulator: Emulator,
    ) -> anyhow::Result<CheckOptions> {
        let guest = GuestOptions { emulator, ..GuestOptions::default() };
        let disk = match kernel {
            GuestKernel::Linux(kernel) if self.fs != TMPFS => Some(Disk::make(kernel, &self.fs)?),
            _ => None,
        };
        Ok(CheckOptions { guest, disk, ..CheckOptions::default() })
    }
}

fn file_systems() -> PossibleValuesParser {
    PossibleValuesParser::new(std::iter::once(TMPFS).chain(Disk::kinds()))
}
