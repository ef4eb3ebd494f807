//! `knee commute conditions`: when operations commute, and when and why they do not.

use std::ops::ControlFlow;
use std::thread;
use std::time::Duration;

use knee_commute::{
    Exploration, Model, ModelError, Test, Wanted, conditions, situations_so_far, watch,
};
use knee_host::number::plural;

use super::complete;
use super::interface::{From, operations, warn};
use crate::exit::ExitStatus;
use crate::present::commute::conditions as present;
use crate::progress::Progress;
use crate::stderr::tell;
use crate::stdout;

/// Time between two updates of the progress.
const UPDATE: Duration = Duration::from_millis(100);

/// Print when operations commute, and when and why they do not
#[derive(clap::Args)]
#[command(after_help = "Examples:
  knee commute conditions open open                 why two opens do not commute
  knee commute conditions rename stat
  knee commute conditions --interface counter inc inc_get
  knee commute conditions --interface map put get remove    three at once")]
pub(super) struct Args {
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

pub(super) fn run(args: &Args) -> anyhow::Result<ExitStatus> {
    watch(|what| tell!("knee: {what}"));
    let model = args.from.model()?;
    let operations = operations(&*model, &args.operations)?;
    let (exploration, examples) = explore(&*model, &operations, &args.from)?;
    warn(&args.operations.join(" and "), &exploration.extent, &args.from);
    let found = present::Found {
        names: &args.operations,
        conditions: &conditions(&exploration),
        exploration: &exploration,
        examples: &examples,
    };
    let text = if args.json { found.json() } else { found.text(args.all) };
    stdout::print_or_show(args.json, &text)?;
    Ok(ExitStatus::Done)
}

/// All situations, and one test for each of them, in the same order. Shows progress.
fn explore(
    model: &dyn Model,
    operations: &[usize],
    from: &From,
) -> Result<(Exploration, Vec<Test>), ModelError> {
    let limits = from.limits();
    let wanted = Wanted { patterns: 1, differing: true };
    let this = thread::current();
    let mut examples = Vec::new();
    let exploration = thread::scope(|scope| {
        let exploration = scope.spawn(|| {
            let exploration = model.explore(operations, &limits);
            this.unpark();
            exploration
        });
        let generated = scope.spawn(|| {
            let generated = model.generate(operations, &limits, &wanted, &mut |test| {
                examples.push(test);
                ControlFlow::Continue(())
            });
            this.unpark();
            generated
        });
        let mut progress = Progress::new(false);
        while !(exploration.is_finished() && generated.is_finished()) {
            progress.show_text(|| match situations_so_far() {
                // An external model does not report its situations.
                0 => "exploring".to_owned(),
                n => format!("exploring: {} so far", plural(n, "situation")),
            });
            thread::park_timeout(UPDATE);
        }
        drop(progress);
        let panics = "a model that panics has been reported";
        generated.join().expect(panics)?;
        exploration.join().expect(panics)
    })?;
    Ok((exploration, examples))
}
