//! `knee commute`: compute from a model when the operations of an interface commute.

mod check;
mod complete;
mod conditions;
mod cost;
mod diff;
mod explain;
mod interface;
mod matrix;
mod sets;
mod test_lines;
mod testgen;
mod verify;

use std::path::PathBuf;

use clap::Subcommand;
use knee_commute::models;

use crate::exit::ExitStatus;
use crate::input::program::Program;
use crate::present::commute::conditions as present;
use crate::stdout;

/// Compute when operations commute; test whether they share memory
///
/// The scalable commutativity rule (Clements et al., SOSP 2013) says: whenever operations commute,
/// they have an implementation that scales. knee explores a model of an interface symbolically,
/// from every initial state and with all possible arguments.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    List(ListArgs),
    Conditions(conditions::Args),
    Tests(testgen::Args),
    Verify(verify::Args),
    Check(check::Args),
    Cost(cost::Args),
    Matrix(matrix::Args),
    Diff(diff::Args),
    Explain(explain::Args),
}

/// Print the interfaces and their operations
#[derive(clap::Args)]
struct ListArgs {
    /// Program that contains your own model; knee lists the operations of this model
    #[arg(long, value_name = "FILE")]
    model: Option<PathBuf>,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitStatus> {
    match &args.command {
        Command::List(args) => stdout::print_or_show(args.json, &list(args)?)?,
        Command::Conditions(args) => return conditions::run(args),
        Command::Tests(args) => return testgen::run(args),
        Command::Verify(args) => return verify::run(args),
        Command::Check(args) => return check::run(args),
        Command::Cost(args) => return cost::run(args),
        Command::Matrix(args) => return matrix::run(args),
        Command::Diff(args) => return diff::run(args),
        Command::Explain(args) => return explain::run(args),
    }
    Ok(ExitStatus::Done)
}

fn list(args: &ListArgs) -> anyhow::Result<String> {
    let models = match &args.model {
        None => models(),
        Some(path) => vec![Box::new(Program::introduce(path.clone())?) as Box<_>],
    };
    Ok(present::list(&models, args.json))
}
