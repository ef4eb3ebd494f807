//! `knee profile`: where the cycles go, and which costs grow with the task count.

mod args;
mod diff;
mod growth;
mod locks;
mod recording;
mod sample;
mod show;
mod target;
mod testcase;
mod watch;

use clap::Subcommand;

use self::args::SampleArgs;
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

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitStatus> {
    match &args.what {
        None => sample::run(&args.sample),
        Some(What::Show(args)) => show::run(args),
        Some(What::Growth(args)) => growth::run(args),
        Some(What::Diff(args)) => diff::run(args),
    }
}
