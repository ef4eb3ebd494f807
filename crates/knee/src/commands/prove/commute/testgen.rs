//! `knee commute tests`.

use std::io::Write;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI32, Ordering};

use anyhow::Context;
use knee_commute::{Generated, Model, ModelError, Wanted, in_order, watch};
use knee_host::AtomicFile;
use knee_host::number::plural;

use super::interface::{From, warn};
use super::sets::{Sets, names, tell_capped};
use super::test_lines::push_line;
use crate::args::whole;
use crate::exit::ExitStatus;
use crate::filter::Content;
use crate::interrupt;
use crate::progress::{Amount, Progress};
use crate::stderr::tell;
use crate::stdout;

/// Selects standard output.
const STDOUT: &str = "-";

/// Generate tests, one line of JSON each: set-up, calls and expected results
///
/// For each situation in which a pair of operations commutes, knee generates one test for each way
/// in which names and integers can be equal or different, up to isomorphism (conflict coverage).
#[derive(clap::Args)]
#[command(after_help = "Examples:
  knee commute tests -o tests.jsonl                  every pair of the interface
  knee commute tests rename -o rename.jsonl          every pair with rename
  knee commute tests open close                      this pair, to stdout
  knee commute tests rename --calls 3                every set of three with rename
  knee commute tests --sequential -o all.jsonl       also single operations and
                                                     pairs that do not commute
  knee commute tests | jq -r .id | cut -d/ -f1 | sort | uniq -c  tests per pair")]
pub(super) struct Args {
    #[command(flatten)]
    sets: Sets,

    /// Output file; - is standard output
    #[arg(short, long, value_name = "FILE", default_value = STDOUT)]
    output: PathBuf,

    /// Also generate tests of single operations, and of pairs that do not commute, with the
    /// expected results of each order
    #[arg(long)]
    sequential: bool,

    /// Maximum number of tests to generate for one situation
    #[arg(long, value_name = "N", default_value_t = Wanted::default().patterns as u32,
          value_parser = whole::<u32>(1..=1_000_000))]
    patterns: u32,

    #[command(flatten)]
    from: From,
}

pub(super) fn run(args: &Args) -> anyhow::Result<ExitStatus> {
    let interrupt = interrupt::poll()?;
    watch(|what| tell!("knee: {what}"));
    let model = args.from.model()?;
    let sets = args.sets.of(&*model, args.sequential)?;
    let wanted = Wanted { patterns: args.patterns as usize, differing: args.sequential };
    let path = &args.output;
    let file = (path != Path::new(STDOUT)).then(|| AtomicFile::create(path)).transpose();
    let file = file.with_context(|| cannot_write(path))?;
    let mut made = Made { args, model: &*model, file, tests: 0, capped: 0 };
    let stopped = AtomicI32::new(0);
    // Lines, not tests: a parsed test takes ten times as much memory.
    let generate = |nr: usize| {
        let mut lines = Vec::new();
        let generated = model.generate(&sets[nr], &args.from.limits(), &wanted, &mut |test| {
            push_line(&mut lines, &test);
            if let Some(signal) = interrupt.take() {
                stopped.store(signal, Ordering::Relaxed);
            }
            match stopped.load(Ordering::Relaxed) {
                0 => ControlFlow::Continue(()),
                _ => ControlFlow::Break(()),
            }
        });
        (lines, generated)
    };
    // Tests on standard output may share the terminal.
    let mut progress = Progress::lines(false);
    let mut failed = Ok(());
    in_order(sets.len(), generate, |nr, (lines, generated)| {
        // The tests of an interrupted set are incomplete.
        if stopped.load(Ordering::Relaxed) == 0 {
            failed = made.add(&sets[nr], &lines, generated);
        }
        if failed.is_err() || stopped.load(Ordering::Relaxed) != 0 {
            return ControlFlow::Break(());
        }
        let (done, of) = (nr as u64 + 1, sets.len() as u64);
        let amount = Amount { done, of, unit: "sets of operations" };
        progress.show(&amount, || plural(made.tests, "test"));
        ControlFlow::Continue(())
    });
    match failed {
        Err(error) if stdout::is_broken_pipe(&error) => return Ok(ExitStatus::Done),
        failed => failed?,
    }
    match stopped.into_inner() {
        0 => {}
        signal => {
            tell!("knee: interrupted; no tests were kept");
            return Ok(ExitStatus::Interrupted(signal));
        }
    }
    let Made { file, tests, capped, .. } = made;
    let mut to = String::new();
    if let Some(file) = file {
        file.persist().with_context(|| cannot_write(path))?;
        to = format!(" to {}", path.display());
    }
    let together: Vec<_> = sets.iter().filter(|set| set.len() > 1).collect();
    let are_pairs = sets.iter().all(|set| set.len() == 2);
    let of = match together.as_slice() {
        [set] => names(&*model, set).join(" and "),
        _ => plural(sets.len(), if are_pairs { "pair" } else { "set" }),
    };
    tell!("knee: wrote {} of {of}{to}", plural(tests, "test"));
    tell_capped(capped, wanted.patterns);
    Ok(ExitStatus::Done)
}

/// The output and the counts so far.
struct Made<'a> {
    args: &'a Args,
    model: &'a dyn Model,
    /// The file appears under its name only when it is complete; `None` is standard output.
    file: Option<AtomicFile>,
    tests: usize,
    capped: usize,
}

impl Made<'_> {
    fn add(
        &mut self,
        set: &[usize],
        lines: &[u8],
        generated: Result<Generated, ModelError>,
    ) -> anyhow::Result<()> {
        let generated = generated?;
        let names = names(self.model, set);
        warn(&names.join(" and "), &generated.extent, &self.args.from);
        self.tests += generated.tests;
        self.capped += generated.capped;
        match &mut self.file {
            Some(file) => file.write_all(lines).with_context(|| cannot_write(&self.args.output)),
            None => {
                let mut out = stdout::stream(Content::Json);
                out.write_all(lines).and_then(|()| out.flush()).context("cannot write the tests")
            }
        }
    }
}

fn cannot_write(path: &Path) -> String {
    format!("cannot write {}", path.display())
}
