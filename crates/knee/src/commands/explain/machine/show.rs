//! `knee machine show`: one machine.

use crate::exit::ExitStatus;
use crate::input::machine::machine;
use crate::{present, stdout};

/// Show a machine with the sources of its figures
#[derive(clap::Args)]
#[command(after_help = "Examples:
  knee machine show genoa-2x96             a machine that knee knows
  knee machine show machine.toml           a file of knee machine measure
  knee machine show milan-2x64 --toml > mine.toml")]
pub(crate) struct Args {
    /// Name from `knee machine list`, or file
    #[arg(value_name = "NAME | FILE.toml")]
    machine: String,

    /// Print the file of the machine
    #[arg(long, conflicts_with = "json")]
    toml: bool,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args) -> anyhow::Result<ExitStatus> {
    let (text, machine) = machine(&args.machine)?;
    match (args.toml, args.json) {
        (true, _) => stdout::print(&text)?,
        (_, true) => stdout::print_json(&machine)?,
        _ => present::machine::show(&machine)?,
    }
    Ok(ExitStatus::Done)
}
