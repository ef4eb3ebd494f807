//! The options of taking a capture.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::ValueEnum;
use knee_host::Placement;
use knee_host::shell::word;
use knee_profile::sampling::{Every, FREQUENCY, Options};
use knee_results::{MAX_TASKS, Mode};

use crate::args::complete;
use crate::args::modes::one_mode;
use crate::args::tasks::Tasks;
use crate::args::whole;

/// What to sample, and where to write the result.
#[derive(clap::Args)]
pub(super) struct SampleArgs {
    /// Testcase or server (see `knee list`), or a file that describes a server
    #[arg(value_name = "NAME | FILE.toml", conflicts_with_all = ["pid", "all", "command"],
          add = complete::testcase_or_server())]
    pub(super) testcase: Option<String>,

    /// Word after a misspelt command, as in `knee profile growht mmap1`. It is never valid
    #[arg(hide = true, value_name = "WORD")]
    pub(super) extra: Option<String>,

    /// Task count of the testcase [default: the usable CPU count], or CPU count of the server
    /// [default: the largest that leaves the load CPUs of its own]
    #[arg(short, long, value_name = "N", requires = "testcase", value_parser = task_count)]
    pub(super) tasks: Option<u32>,

    /// Task mode: processes or threads [default: processes if the testcase supports them]
    #[arg(short, long, value_parser = one_mode(), requires = "testcase")]
    pub(super) mode: Option<Mode>,

    /// Process to sample, including its threads, its descendants and all processes that they start
    #[arg(short, long, value_name = "PID", conflicts_with_all = ["all", "command"],
          value_parser = whole::<i32>(1..=i32::MAX))]
    pub(super) pid: Option<i32>,

    /// With -p, leave out descendants that already exist when sampling begins
    #[arg(long, requires = "pid", conflicts_with_all = ["testcase", "all", "command"])]
    pub(super) only: bool,

    /// Sample everything on all CPUs
    #[arg(short, long, conflicts_with = "command")]
    pub(super) all: bool,

    /// Command to run and sample, with all processes it starts
    #[arg(last = true, value_name = "COMMAND")]
    pub(super) command: Vec<OsString>,

    /// Seconds to sample [default: 3 for a testcase or server, otherwise until exit or Ctrl-C]
    #[arg(short, long, value_name = "SECONDS", value_parser = crate::args::seconds)]
    pub(super) duration: Option<f64>,

    /// Record kernel lock waits instead of samples: lock type, waiting function, wait count and
    /// wait time. Requires root or CAP_PERFMON
    #[arg(long, conflicts_with_all = ["frequency", "event"])]
    pub(super) locks: bool,

    /// Print the lock waits as JSON
    #[arg(long, requires = "locks")]
    pub(super) json: bool,

    /// Output file [default: profiles/TIME.json; for lock waits: none]
    #[arg(short, long, value_name = "FILE")]
    pub(super) output: Option<PathBuf>,

    #[command(flatten)]
    pub(super) how: HowArgs,
}

fn task_count(text: &str) -> Result<u32, String> {
    match text.parse() {
        Ok(n @ 1..=MAX_TASKS) => Ok(n),
        _ if text.parse::<Tasks>().is_ok() => {
            let text = word(text);
            Err(format!("must be one task count; for several, use knee profile growth -t {text}"))
        }
        _ => Err(format!("must be a task count from 1 to {MAX_TASKS}")),
    }
}

/// How to sample.
#[derive(clap::Args, Clone)]
pub(super) struct HowArgs {
    /// Samples per second on each CPU
    #[arg(short = 'F', long, value_name = "HZ", default_value_t = FREQUENCY,
          value_parser = whole::<u64>(1..=100_000))]
    pub(super) frequency: u64,

    /// Event that triggers samples
    #[arg(long, value_enum, default_value = "best")]
    pub(super) event: Event,

    /// Order in which tasks take CPUs: cores, smt, compact, scatter or none (see `knee topology`)
    #[arg(long, value_name = "PLACEMENT", default_value = "cores")]
    pub(super) placement: Placement,

    /// Directory in which testcases create files [default: $TMPDIR or /tmp]
    #[arg(long, value_name = "DIR")]
    pub(super) dir: Option<PathBuf>,

    /// Suppress the progress and the table
    #[arg(short, long)]
    pub(super) quiet: bool,
}

impl HowArgs {
    pub(super) fn options(&self) -> Options {
        Options { every: self.event.into(), frequency: self.frequency, ..Options::default() }
    }
}

#[derive(Clone, Copy, ValueEnum)]
pub(super) enum Event {
    /// Cycles if the machine counts them, otherwise the CPU clock
    Best,
    /// Cycles
    Cycles,
    /// CPU clock
    CpuClock,
    /// Off-CPU time (asleep, or waiting for a CPU)
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
