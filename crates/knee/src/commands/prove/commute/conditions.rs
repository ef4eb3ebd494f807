//! `knee commute conditions`: when operations commute, and when and why they do not.

use std::ops::ControlFlow;
use std::sync::mpsc::{self, RecvTimeoutError};
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
    let (exploration, examples) = shown(
        || explore(&*model, &operations, &args.from),
        || match situations_so_far() {
            // An external model does not report its situations.
            0 => "exploring".to_owned(),
            n => format!("exploring: {} so far", plural(n, "situation")),
        },
    )?;
    warn(&args.operations.join(" and "), &exploration.extent, &args.from);
    let situations = plural(exploration.situations.len(), "situation");
    let short =
        shown(|| conditions(&exploration), || format!("shortening the conditions of {situations}"));
    let found = present::Found {
        names: &args.operations,
        conditions: &short,
        exploration: &exploration,
        examples: &examples,
    };
    let text = if args.json { found.json() } else { found.text(args.all) };
    stdout::print_or_show(args.json, &text)?;
    Ok(ExitStatus::Done)
}

/// All situations, and one test for each of them, in the same order.
fn explore(
    model: &dyn Model,
    operations: &[usize],
    from: &From,
) -> Result<(Exploration, Vec<Test>), ModelError> {
    let limits = from.limits();
    let wanted = Wanted { patterns: 1, differing: true };
    let mut examples = Vec::new();
    let exploration = thread::scope(|scope| {
        let exploration = scope.spawn(|| model.explore(operations, &limits));
        model.generate(operations, &limits, &wanted, &mut |test| {
            examples.push(test);
            ControlFlow::Continue(())
        })?;
        exploration.join().expect("a model that panics has been reported")
    })?;
    Ok((exploration, examples))
}

/// Does the work in a thread of its own, and shows what it is about meanwhile.
fn shown<T: Send>(work: impl FnOnce() -> T + Send, about: impl Fn() -> String) -> T {
    let (sender, done) = mpsc::channel();
    thread::scope(|scope| {
        scope.spawn(move || sender.send(work()));
        let mut progress = Progress::new(false);
        loop {
            match done.recv_timeout(UPDATE) {
                Ok(done) => return done,
                Err(RecvTimeoutError::Timeout) => progress.show_text(&about),
                Err(RecvTimeoutError::Disconnected) => panic!("the work panicked"),
            }
        }
    })
}
