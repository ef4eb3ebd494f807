//! `knee jobs`: run commands on several machines.

mod directory;
mod engine;
mod kubernetes;
mod list;
mod local;
mod machine;
mod plan;
mod pool;
mod queue;
mod received;
mod run;
mod slurm;
mod ssh;

use clap::Subcommand;

use crate::exit::ExitStatus;

/// Run many commands here, on other machines, or on a cluster
///
/// A list of jobs is a text file with one shell command per line. `knee jobs plan` writes such a
/// list for all combinations of parameters, such as kernels and shards. `knee jobs run` runs the
/// jobs, repeats those that fail, and collects their results in one directory.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  knee jobs plan 'knee commute check --kernel {kernel} --shard {shard} \\
      -o $KNEE_OUT/{kernel}/{job} --resume' kernel=bookworm,trixie shard=1..8/8 > list
  knee jobs run list -o campaign                        on this machine
  knee jobs run list -o campaign --on ssh:alpha,beta    on two other machines
  knee jobs run list -o campaign --on slurm             as an array job of Slurm
  knee commute matrix campaign/results/bookworm         the result of all shards")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Plan(plan::Args),
    Run(Box<run::Args>),
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitStatus> {
    match &args.command {
        Command::Plan(args) => plan::run(args),
        Command::Run(args) => run::run(args),
    }
}
