//! `knee commute check`.

mod program;
mod progress;
mod trace;

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::{Context, anyhow};
use clap::builder::PossibleValuesParser;
use knee_host::number::plural;
use knee_host::utc::rfc3339;
use knee_trace::findings::{Shard, Tally, TestLine, Tested, TestedKernel};
use knee_trace::{Archive, CheckOptions, Disk, Emulator, Functions, GuestOptions, Kernel, check};
use serde::Deserialize;
use serde::de::IgnoredAny;

use self::progress::UnderWay;
use super::verify::tests;
use crate::args::complete;
use crate::exit::{ExitStatus, usage};
use crate::input::emulator::emulator;
use crate::present::commute::check::text;
use crate::stderr::tell;
use crate::stdout;

/// The file system that needs no disk.
const TMPFS: &str = "tmpfs";

/// Check whether commuting calls share memory in a real kernel or library, traced under QEMU
///
/// On an unmodified kernel, knee runs the tests of `posix` whose calls commute. The calls of a test
/// run one after the other, each on its own virtual CPU, and knee records what the kernel reads and
/// writes in each. A conflict is a memory line (64 bytes) that both calls access and that at least
/// one of them writes. When real cores make these calls at the same time, such a line makes the
/// cores wait for each other.
///
/// knee runs a test with conflicts again. It reports separately what the calls share only in some
/// runs, or only because of where objects happen to lie in memory. The results are independent of
/// the size and speed of this machine.
///
/// With --program, knee checks a library instead, and does not trace the kernel (see
/// docs/libraries.md).
#[derive(clap::Args)]
#[command(after_help = "Examples:
  knee commute check stat rename                        one pair, running kernel
  knee commute check open --kernel bookworm             every pair with open
  knee commute check --kernel vmlinuz-6.12 --json > 6.12.jsonl
  knee commute check link unlink --kernel bookworm --fs xfs
  knee commute tests | shuf -n 2000 | knee commute check --tests -
  knee commute check --kernel trixie -o 6.12            keep a record
  knee commute check --kernel trixie -o 6.12 --resume   resume this record
  knee commute check --kernel trixie -o part/2 --shard 2/4    one of four machines
  knee commute check close close --trace close,close/3.1    every memory access
  knee commute check --program ./my-binding             the library it binds
  knee commute check --program ./my-binding --kernel trixie    in a guest
  knee commute check --program ./my-binding -o new && knee commute diff base new

Exit status 1: a call returned a result that the model does not allow.
Exit status 4: a guest or a program crashed in a test.")]
pub(super) struct Args {
    /// Two to four operations to test together; with one, every pair that includes it; with
    /// none, every pair
    #[arg(value_name = "OP", num_args = 0..=4, conflicts_with = "tests",
          add = complete::operations())]
    operations: Vec<String>,

    /// File of tests from `knee commute tests`; - is standard input
    #[arg(long, value_name = "FILE")]
    tests: Option<PathBuf>,

    /// Kernel: an image, a Debian package of a kernel, or a Debian release from which to fetch it
    /// [default: the running kernel]. With --program, knee runs the program in a guest with this
    /// kernel
    #[arg(long, value_name = "FILE|RELEASE")]
    kernel: Option<PathBuf>,

    /// Program that binds a library to a model of its interface (crate knee-bind); knee checks the
    /// library with the tests of that model. QEMU's user mode runs the program. If it is missing or
    /// does not support plugins, the program runs in a guest with the kernel of Debian 12
    #[arg(long, value_name = "FILE", conflicts_with = "fs")]
    program: Option<PathBuf>,

    /// File system for the files of the tests: tmpfs, or one that this machine can create with
    /// mkfs, on a RAM disk of the guest
    #[arg(long, value_name = "NAME", default_value = TMPFS, value_parser = file_systems())]
    fs: String,

    /// New directory for the record of the results
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,

    /// Shard of the tests: every N-th test, starting with the I-th
    #[arg(long, value_name = "I/N", default_value_t = Shard::WHOLE)]
    shard: Shard,

    /// Run only the tests that the record in DIR lacks, if it exists
    #[arg(long, requires = "output")]
    resume: bool,

    /// Test to run alone; knee prints every memory access of its calls
    #[arg(long, value_name = "TEST", conflicts_with_all = ["output", "shard", "program"])]
    trace: Option<String>,

    /// Print one line of JSON for each test, or with --trace for each access
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args) -> anyhow::Result<ExitStatus> {
    if let Some(program) = &args.program {
        return program::run(program, args);
    }
    let lines = tests(&args.operations, args.tests.as_deref(), false)?;
    let all = listed(&lines, args.trace.is_some())?;
    distinct(&all)?;
    let kernel = kernel(args.kernel.as_deref())?;
    if let Some(test) = &args.trace {
        return trace::run(test, &all, &kernel, args);
    }
    let tested = Tested::Kernel { kernel: TestedKernel::of(&kernel), file_system: args.fs.clone() };
    let title = tested.to_string();
    let emulator = emulator()?;
    let qemu = emulator.version();
    let version = qemu.as_deref().unwrap_or_default().to_owned();
    let (mut progress, _) = UnderWay::begin(args, &all, tested, version)?;
    if !progress.is_done() {
        qemu?;
        let options = options(args, &kernel, emulator)?;
        match run_tests(&kernel, &options, &mut progress) {
            Err(error) if stdout::is_broken_pipe(&error) => return Ok(ExitStatus::Done),
            ran => ran?,
        }
    }
    let tally = progress.end()?;
    if !args.json {
        stdout::show(&text(&tally, &title))?;
    }
    Ok(status(&tally))
}

/// The options of the check: the QEMU, and the file system that the user requested.
fn options(args: &Args, kernel: &Kernel, emulator: Emulator) -> anyhow::Result<CheckOptions> {
    let guest = GuestOptions { emulator, ..GuestOptions::default() };
    let disk = (args.fs != TMPFS).then(|| Disk::make(kernel, &args.fs)).transpose()?;
    Ok(CheckOptions { guest, disk, ..CheckOptions::default() })
}

fn status(tally: &Tally) -> ExitStatus {
    match tally.total().died {
        0 if tally.unexpected().is_empty() => ExitStatus::Done,
        0 => ExitStatus::Policy,
        _ => ExitStatus::TestcaseDied,
    }
}

fn now() -> String {
    rfc3339(SystemTime::now())
}

/// The tests in `lines`, with their ids. Without `all`, only tests of several calls that commute:
/// sharing in other tests says nothing about the kernel.
fn listed(lines: &[u8], all: bool) -> anyhow::Result<Vec<(String, &[u8])>> {
    #[derive(Deserialize)]
    struct Test {
        id: String,
        commute: Option<bool>,
        #[serde(default)]
        calls: Vec<IgnoredAny>,
    }
    let (mut tests, mut left_out) = (Vec::new(), 0);
    let lines = lines.split_inclusive(|byte| *byte == b'\n').enumerate();
    for (nr, line) in lines.filter(|(_, line)| !line.trim_ascii().is_empty()) {
        // To whoever parses a line it is the first.
        let no_test = |error: serde_json::Error| {
            let said = error.to_string().replace(" at line 1 ", " at ");
            anyhow!("line {} of the tests is no test: {said}", nr + 1)
        };
        let Test { id, commute, calls } =
            serde_json::from_slice(line.trim_ascii_end()).map_err(no_test)?;
        match all || (commute != Some(false) && calls.len() != 1) {
            true => tests.push((id, line)),
            false => left_out += 1,
        }
    }
    if left_out > 0 {
        let what = plural(left_out, "test");
        tell!("knee: {what} left out, of one call or of calls that do not commute");
    }
    match tests.is_empty() {
        // A filter that lets nothing through would pass for a check without conflicts.
        true => Err(usage("there are no tests to run")),
        false => Ok(tests),
    }
}

/// Fails if a test occurs twice.
fn distinct(tests: &[(String, &[u8])]) -> anyhow::Result<()> {
    let mut seen = BTreeSet::new();
    match tests.iter().position(|(id, _)| !seen.insert(id)) {
        None => Ok(()),
        Some(nr) => {
            let id = &tests[nr].0;
            Err(usage(format!("test {id} is there twice, as number {} again", nr + 1)))
        }
    }
}

/// Runs the remaining tests in guests, and records each result.
fn run_tests(
    kernel: &Kernel,
    options: &CheckOptions,
    progress: &mut UnderWay,
) -> anyhow::Result<()> {
    let tests = plural(progress.left(), "test");
    tell!("knee: booting a guest with Linux {} for {tests}", kernel.release());
    let mut failed = Ok(());
    let mut warned = false;
    check(kernel, &progress.lines(), options, |checked, functions| {
        warn_of_missing(&mut warned, kernel, functions);
        failed = progress.keep(TestLine::of(&checked, functions));
        if failed.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    failed
}

/// Warns once about symbols or types that the kernel does not provide.
pub(super) fn warn_of_missing(warned: &mut bool, kernel: &Kernel, functions: &Functions) {
    let missing = functions.missing();
    if !missing.is_empty() && !std::mem::replace(warned, true) {
        let (release, what) = (kernel.release(), missing.join(" and "));
        tell!("knee: Linux {release} does not tell {what}: data have no names, or vague ones");
    }
}

fn file_systems() -> PossibleValuesParser {
    PossibleValuesParser::new(std::iter::once(TMPFS).chain(Disk::kinds()))
}

pub(super) fn kernel(named: Option<&Path>) -> anyhow::Result<Kernel> {
    let Some(named) = named else { return Ok(Kernel::running()?) };
    // A record of the kernel's check may well be in a directory of its name.
    if named.exists() && !named.is_dir() {
        return Ok(Kernel::open(named)?);
    }
    let name = named.to_string_lossy();
    if name.contains('/') {
        let is = if named.is_dir() { "is a directory" } else { "is not there" };
        anyhow::bail!("{name} {is}: name a kernel's image, its package, or a release");
    }
    tell!("knee: looking for the kernel of {name}, which is fetched unless it has been");
    Archive::of_user().open(&name).with_context(|| format!("the kernel of {name}"))
}
