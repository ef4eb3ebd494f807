//! `knee profile`: where the cycles go, and which costs grow with the task count.

mod args;
mod command;
mod diff;
mod growth;
mod locks;
mod recording;
mod repeated;
mod rounds;
mod sample;
mod service;
mod show;
mod subject;
mod target;
mod testcase;
mod watch;

use clap::Subcommand;
use knee_host::suggest::{nearest, question};

use self::args::SampleArgs;
use crate::args::selection::{Selection, is_description};
use crate::exit::{ExitStatus, usage};

/// Find where cycles go, and which costs grow with the task count
///
/// knee samples kernel and user stacks with perf_event_open. Cycles trigger the samples if the
/// machine counts cycles, otherwise the CPU clock does. knee writes a capture: one file that
/// includes the function names.
///
/// `show` turns a capture into a call tree, a flame graph or a file for other tools. `growth`
/// samples a testcase, a server or a command at several task counts, and ranks the functions whose
/// cost per iteration, request or run grows. `diff` compares two captures.
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
  knee profile nginx -t 1                  a server on one CPU, under load
  knee profile growth mmap1 -m threads     what costs more with more tasks
  knee profile growth -- make -j{tasks}    the same of your own program
  knee profile show last.json              the call tree
  knee profile show last.json --format flame -o last.svg
  knee profile show perf.data              the call tree of a perf recording
  knee profile diff before.json after.json

`knee profile -- COMMAND` exits with the status of the command, and ends the processes that the
command left running.";

#[derive(Subcommand)]
enum What {
    Show(show::Args),
    Growth(Box<growth::Args>),
    Diff(diff::Args),
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitStatus> {
    if let Some(error) = misspelt(&args.sample) {
        return Err(error);
    }
    match &args.what {
        None => sample::run(&args.sample),
        Some(What::Show(args)) => show::run(args),
        Some(What::Growth(args)) => growth::run(args),
        Some(What::Diff(args)) => diff::run(args),
    }
}

/// The error for a misspelt command, which clap takes for a testcase, or for a second testcase.
fn misspelt(args: &SampleArgs) -> Option<anyhow::Error> {
    let word = args.testcase.as_deref()?;
    let is_known = is_description(word) || Selection::of(&[word.to_owned()], false).is_ok();
    if is_known {
        let extra = args.extra.as_deref()?;
        return Some(usage(format!("unexpected argument {extra}: name one testcase")));
    }
    let commands = What::augment_subcommands(clap::Command::new("profile"));
    let names = commands.get_subcommands().map(clap::Command::get_name);
    let names = nearest(word, names);
    let message = format!("knee profile has no command {word}{}", question(&names));
    (!names.is_empty()).then(|| usage(message))
}
