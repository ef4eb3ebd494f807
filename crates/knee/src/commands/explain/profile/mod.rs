//! `knee profile`: where the cycles go, and which costs grow with the task count.

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

use crate::args::complete;
use crate::args::modes::Modes;
use crate::exit::ExitStatus;

/// Sample where the cycles go, and rank what grows with tasks
///
/// knee samples kernel and user stacks with perf_event_open, by cycles if the machine counts them,
/// otherwise by the CPU clock. It writes a capture, one file that includes the function names.
///
/// `show` turns a capture into a call tree, a flame graph or a file for other tools. `growth`
/// samples a testcase at several task counts, and ranks the functions whose cost per iteration
/// grows. `diff` compares two captures.
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
  knee profile -- make -j8                 a command and all processes it starts
  knee profile -p 1234 -d 10               a process, for ten seconds
  knee profile -a -d 5                     everything on all CPUs
  knee profile mmap1 -m threads --locks    who waits for which kernel lock
  knee profile mmap1 --event off-cpu       where tasks sleep, or wait for a CPU
  knee profile growth mmap1 -m threads     what costs more with more tasks
  knee profile show last.json              the call tree
  knee profile show last.json --format flame -o last.svg
  knee profile show perf.data              the call tree of a perf recording
  knee profile diff before.json after.json

`knee profile -- COMMAND` exits with the status of the command.";

#[derive(Subcommand)]
enum What {
    Show(show::Args),
    Growth(Box<growth::Args>),
    Diff(diff::Args),
}

/// What to sample, and where to write the result.
#[derive(clap::Args)]
struct SampleArgs {
    /// Testcase name (see `knee list`)
    #[arg(value_name = "TESTCASE", conflicts_with_all = ["pid", "all", "command"],
          add = complete::testcase())]
    testcase: Option<String>,

    /// Task count of the testcase [default: the count of usable CPUs]
    #[arg(short, long, value_name = "N", requires = "testcase",
          value_parser = clap::value_parser!(u32).range(1..=i64::from(knee_results::MAX_TASKS)))]
    tasks: Option<u32>,

    /// Task mode: processes or threads [default: processes if the testcase supports them]
    #[arg(short, long, value_enum, requires = "testcase")]
    mode: Option<ModeArg>,

    /// Process to sample, with its threads and the processes it starts
    #[arg(short, long, value_name = "PID", conflicts_with_all = ["all", "command"])]
    pid: Option<i32>,

    /// Sample everything on all CPUs
    #[arg(short, long, conflicts_with = "command")]
    all: bool,

    /// Command to run and sample, with all processes it starts
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,

    /// Seconds to sample [default: 3 for a testcase, otherwise until exit or Ctrl-C]
    #[arg(short, long, value_name = "SECONDS", value_parser = crate::args::seconds)]
    duration: Option<f64>,

    /// Record kernel lock waits instead of samples: lock type, waiting function, wait count and
    /// wait time. Requires root or CAP_PERFMON
    #[arg(long, conflicts_with_all = ["frequency", "event"])]
    locks: bool,

    /// Print the lock waits as JSON
    #[arg(long, requires = "locks")]
    json: bool,

    /// Output file [default: profiles/TIME.json; lock waits are only printed]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,

    #[command(flatten)]
    how: HowArgs,
}

/// How to sample.
#[derive(clap::Args, Clone)]
struct HowArgs {
    /// Samples per second and CPU
    #[arg(short = 'F', long, value_name = "HZ", default_value_t = FREQUENCY,
          value_parser = clap::value_parser!(u64).range(1..=100_000))]
    frequency: u64,

    /// Event that triggers samples
    #[arg(long, value_enum, default_value = "best")]
    event: Event,

    /// Order in which tasks take CPUs: cores, smt, compact, scatter or none (see `knee topology`)
    #[arg(long, value_name = "PLACEMENT", default_value = "cores")]
    placement: Placement,

    /// Directory for the files of testcases [default: $TMPDIR or /tmp]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,

    /// Suppress the progress and the table
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
    /// Cycles if the machine counts them, otherwise the CPU clock
    Best,
    /// Cycles
    Cycles,
    /// CPU clock
    CpuClock,
    /// Off-CPU time: asleep, or waiting for a CPU
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
