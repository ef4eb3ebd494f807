//! `knee commute`: compute from a model when the operations of an interface commute.

mod check;
mod complete;
mod cost;
mod diff;
mod explain;
mod interface;
mod matrix;
mod program;
mod test_lines;
mod testgen;
mod verify;

use std::ops::ControlFlow;
use std::path::PathBuf;

use clap::Subcommand;
use knee_commute::{Wanted, conditions, models, watch};

use self::interface::{From, operations, warn};
use crate::exit::ExitStatus;
use crate::present::commute::conditions as present;
use crate::stderr::tell;
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
    Conditions(ConditionsArgs),
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

/// Print when operations commute, and when and why they do not
#[derive(clap::Args)]
#[command(after_help = "Examples:
  knee commute conditions open open                 why two opens do not commute
  knee commute conditions rename stat
  knee commute conditions --interface counter inc inc_get
  knee commute conditions --interface map put get remove    three at once")]
struct ConditionsArgs {
    /// Two to four operations
    #[arg(value_name = "OP", required = true, num_args = 2.., add = complete::operations())]
    operations: Vec<String>,

    #[command(flatten)]
    from: From,

    /// Print all conditions and reasons, not only the most frequent ones
    #[arg(long)]
    all: bool,

    /// Print JSON, with all conditions and reasons
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitStatus> {
    match &args.command {
        Command::List(args) => stdout::print_or_show(args.json, &list(args)?)?,
        Command::Conditions(args) => stdout::print_or_show(args.json, &when(args)?)?,
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
        Some(path) => vec![Box::new(program::Program::introduce(path.clone())?) as Box<_>],
    };
    Ok(present::list(&models, args.json))
}

fn when(args: &ConditionsArgs) -> anyhow::Result<String> {
    watch(|what| tell!("knee: {what}"));
    let model = args.from.model()?;
    let operations = operations(&*model, &args.operations)?;
    let exploration = model.explore(&operations, &args.from.limits())?;
    warn(&args.operations.join(" and "), &exploration.extent, &args.from);
    // One test for each situation, in the same order.
    let wanted = Wanted { patterns: 1, differing: true };
    let mut examples = Vec::with_capacity(exploration.situations.len());
    model.generate(&operations, &args.from.limits(), &wanted, &mut |test| {
        examples.push(test);
        ControlFlow::Continue(())
    })?;
    let found = present::Found {
        names: &args.operations,
        conditions: &conditions(&exploration),
        exploration: &exploration,
        examples: &examples,
    };
    Ok(if args.json { found.json() } else { found.text(args.all) })
}
