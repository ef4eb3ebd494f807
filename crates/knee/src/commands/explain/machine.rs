//! `knee machine`: what it costs the CPUs of a machine to communicate.

mod list;
mod measure;
mod show;

use clap::Subcommand;

use crate::exit::ExitStatus;

/// Measure or show what it costs CPUs to communicate
///
/// On a machine with many CPUs, the time to move a cache line from one CPU to another limits all
/// that CPUs share: a counter that takes 100 ns to move cannot be incremented more than 10 million
/// times per second. `measure` takes this time for each pair of CPUs, and the times for atomic
/// additions to one cache line, interrupts and wake-ups. `list` and `show` have the published
/// figures of other machines, with their sources.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  knee machine measure                  this machine, into machine.toml
  knee report machine.toml              a page with a map of all pairs of CPUs
  knee machine list                     the machines that knee knows
  knee machine show genoa-2x96          one of them, with its sources
  knee machine show genoa-2x96 --toml   its file, as a template for your own")]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    Measure(measure::Args),
    List(list::Args),
    Show(show::Args),
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitStatus> {
    match &args.what {
        What::Measure(args) => measure::run(args),
        What::List(args) => list::run(args),
        What::Show(args) => show::run(args),
    }
}
