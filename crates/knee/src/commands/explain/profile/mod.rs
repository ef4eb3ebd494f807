//! `knee profile`: where the cycles go, and what grows with the cores.

mod diff;
mod growth;
mod locks;
mod sample;
mod show;
mod target;
mod testcase;
mod watch;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Subcommand, ValueEnum};
use knee_host::Placement;
use knee_profile::sampling::{Every, FREQUENCY, Options};

use crate::args::modes::Modes;
use crate::exit::ExitStatus;

/// Sample where the cycles go, and rank what grows with tasks
///
/// Kernel and user stacks are sampled by perf_event_open, by cycles where the machine counts them, else
/// by its clock. What is kept is one file with names in it, which `show` turns into a call tree, a
/// flame graph, and files of other tools. `growth` samples a testcase at one task and at more, and
/// ranks what each iteration takes more of; `diff` compares two captures.
#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true, after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: Option<What>,

    #[command(flatten)]
    sample: SampleArgs,
}

const EXAMPLES: &str = "\
Examples:
  knee profile mmap1 -t 2 -m threads       a testcase at two tasks
  knee profile -- make -j8                 a command and all that it starts
  knee profile -p 1234 -d 10               a process, for ten seconds
  knee profile -a -d 5                     everything on all CPUs
  knee profile mmap1 -m threads --locks    who waits for which lock of the kernel, and how long
  knee profile mmap1 --event off-cpu       where tasks sleep, or wait for a CPU
  knee profile growth mmap1 -m threads     what an iteration takes more of with more tasks
  knee profile show last.json              the call tree
  knee profile show last.json --form flame -o last.svg
  knee profile show perf.data              … of what perf has recorded
  knee profile diff before.json after.json

Status of `knee profile -- COMMAND`: that of the command.";

#[derive(Subcommand)]
enum What {
    Show(show::Args),
    Growth(Box<growth::Args>),
    Diff(diff::Args),
}

/// What to sample, and where to.
#[derive(clap::Args)]
struct SampleArgs {
    /// A testcase, as of `knee list`
    #[arg(value_name = "TESTCASE", conflicts_with_all = ["pid", "all", "command"])]
    testcase: Option<String>,

    /// Number of tasks of the testcase
    #[arg(short, long, value_name = "N", requires = "testcase",
          value_parser = clap::value_parser!(u32).range(1..=i64::from(knee_results::MAX_TASKS)))]
    tasks: Option<u32>,

    /// Processes or threads [default: what the testcase can, processes first]
    #[arg(short, long, value_enum, requires = "testcase")]
    mode: Option<ModeArg>,

    /// A process, its threads, and what they start
    #[arg(short, long, value_name = "PID", conflicts_with_all = ["all", "command"])]
    pid: Option<i32>,

    /// Everything on all CPUs
    #[arg(short, long, conflicts_with = "command")]
    all: bool,

    /// A command, with all that it starts
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,

    /// Seconds to sample [default: 3 for a testcase, else until it ends or Ctrl-C]
    #[arg(short, long, value_name = "SECONDS", value_parser = crate::args::seconds)]
    duration: Option<f64>,

    /// Instead of samples, each wait for a lock of the kernel: which kind, who wanted it, how often and
    /// how long they waited. Takes root or CAP_PERFMON
    #[arg(long, conflicts_with_all = ["frequency", "event"])]
    locks: bool,

    /// Lock waits as JSON, for programs
    #[arg(long, requires = "locks")]
    json: bool,

    /// Where to write the capture [default: profiles/TIME.json; lock waits are only shown]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,

    #[command(flatten)]
    how: HowArgs,
}

/// How to sample.
#[derive(clap::Args, Clone)]
struct HowArgs {
    /// Samples for each second of a CPU
    #[arg(short = 'F', long, value_name = "HZ", default_value_t = FREQUENCY,
          value_parser = clap::value_parser!(u64).range(1..=100_000))]
    frequency: u64,

    /// What makes a sample due
    #[arg(long, value_enum, default_value = "best")]
    event: Event,

    /// Which CPUs tasks take first: cores, smt, compact, scatter or none (see `knee topology`)
    #[arg(long, value_name = "PLACEMENT", default_value = "cores")]
    placement: Placement,

    /// Where testcases keep their files [default: $TMPDIR or /tmp]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,

    /// No progress and no table
    #[arg(short, long)]
    quiet: bool,
}

impl HowArgs {
    fn options(&self) -> Options {
        Options { every: self.event.into(), frequency: self.frequency, ..Options::default() }
    }
}

#[derive(Clone, Copy, ValueEnum)]
enum ModeArg {
    Processes,
    Threads,
}

impl ModeArg {
    fn modes(self) -> Modes {
        match self {
            ModeArg::Processes => Modes::Processes,
            ModeArg::Threads => Modes::Threads,
        }
    }
}

#[derive(Clone, Copy, ValueEnum)]
enum Event {
    /// Cycles where the machine counts them, else the CPU's clock
    Best,
    /// Cycles
    Cycles,
    /// The CPU's clock
    CpuClock,
    /// Time without a CPU: asleep, or waiting for one
    OffCpu,
}

impl From<Event> for Every {
    fn from(event: Event) -> Every {
        match event {
            Event::Best => Every::Best,
            Event::Cycles => Every::Cycles,
            Event::CpuClock => Every::CpuClock,
            Event::OffCpu => Every::OffCpu,
        }
    }
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitStatus> {
    match &args.what {
        None => sample::run(&args.sample),
        Some(What::Show(args)) => show::run(args),
        Some(What::Growth(args)) => growth::run(args),
        Some(What::Diff(args)) => diff::run(args),
    }
}
