//! The sets of operations that a command tests, and the tests of these sets.

use std::ops::ControlFlow;

use knee_commute::{Limits, Model, Wanted, in_order, sets};

use super::complete;
use super::interface::{MOST_AT_ONCE, operations};
use super::test_lines::push_line;
use crate::args::whole;
use crate::exit::{bail_usage, ensure_usage};
use crate::progress::{Amount, Progress};
use crate::stderr::tell;

/// The number of calls of a test unless the user names more operations.
const CALLS: usize = 2;
/// Maximum tests to hold in memory. A check keeps about 15 KB for each test.
const MOST_TESTS: usize = 250_000;

/// The sets of operations to test.
#[derive(clap::Args)]
pub(super) struct Sets {
    /// Operations to test together, up to four; fewer operations than calls select every set
    /// that includes them [default: every pair]
    #[arg(value_name = "OP", num_args = 0.., add = complete::operations())]
    operations: Vec<String>,

    /// Number of calls in each test, from 2 to 4; knee tests every set of N operations that
    /// includes the named ones [default: the number of named operations, but at least 2]
    #[arg(long, value_name = "N", value_parser = whole::<usize>(CALLS..=MOST_AT_ONCE))]
    calls: Option<usize>,
}

impl Sets {
    /// The operations that the user named.
    pub(super) fn named(&self) -> &[String] {
        &self.operations
    }

    /// Whether shards divide the sets. Otherwise, shards divide tests: every shard generates all tests,
    /// which takes seconds for pairs, but most of an hour for all sets of three.
    pub(super) fn are_divided(&self) -> bool {
        self.calls.is_some_and(|calls| calls > CALLS)
    }

    /// The sets. With `also_alone`, also each operation alone.
    pub(super) fn of(
        &self,
        model: &dyn Model,
        also_alone: bool,
    ) -> anyhow::Result<Vec<Vec<usize>>> {
        let named = operations(model, &self.operations)?;
        let calls = self.calls.unwrap_or(named.len().max(CALLS));
        ensure_usage!(
            named.len() <= calls,
            "{} operations are too many for tests with {calls} calls",
            named.len()
        );
        let all = model.operations().len();
        let mut alone: Vec<Vec<usize>> = match named.as_slice() {
            [] => (0..all).map(|nr| vec![nr]).collect(),
            named => named.iter().map(|nr| vec![*nr]).collect(),
        };
        alone.dedup();
        let together = match named.len() == calls {
            true => vec![named],
            false => {
                let all = sets(all, calls).into_iter();
                all.filter(|set| includes(set, &named)).collect()
            }
        };
        Ok(if also_alone { [alone, together].concat() } else { together })
    }
}

/// Whether a set has each of the named operations at least as often as `named` does.
fn includes(set: &[usize], named: &[usize]) -> bool {
    let count = |of: &[usize], nr| of.iter().filter(|other| **other == nr).count();
    named.iter().all(|&nr| count(set, nr) >= count(named, nr))
}

/// The names of a set's operations.
pub(super) fn names<'m>(model: &'m dyn Model, set: &[usize]) -> Vec<&'m str> {
    let operations = model.operations();
    set.iter().map(|&nr| operations[nr].0).collect()
}

/// The tests of these sets, one per line. Prints how many tests the limits leave out.
pub(super) fn tests_of(
    model: &dyn Model,
    sets: &[Vec<usize>],
    wanted: &Wanted,
) -> anyhow::Result<Vec<u8>> {
    let mut progress = Progress::new(false);
    let (mut lines, mut tests, mut capped, mut cut) = (Vec::new(), 0, 0, 0);
    let mut failed = Ok(());
    let generate = |nr: usize| {
        let (mut lines, mut count) = (Vec::new(), 0);
        let generated = model.generate(&sets[nr], &Limits::default(), wanted, &mut |test| {
            push_line(&mut lines, &test);
            count += 1;
            // One more test, so that the sum is above the limit too.
            if count > MOST_TESTS { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        generated.map(|generated| (lines, generated))
    };
    in_order(sets.len(), generate, |nr, of_set| match of_set {
        Ok((of_set, generated)) => {
            lines.extend(of_set);
            tests += generated.tests;
            capped += generated.capped;
            cut += usize::from(generated.extent != Default::default());
            let (done, of) = (nr as u64 + 1, sets.len() as u64);
            let amount = Amount { done, of, unit: "sets of operations" };
            progress.show(&amount, || "generates tests".to_owned());
            if tests > MOST_TESTS { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        }
        Err(error) => {
            failed = Err(error);
            ControlFlow::Break(())
        }
    });
    drop(progress);
    failed?;
    if tests > MOST_TESTS {
        bail_usage!(
            "these operations have more than {MOST_TESTS} tests, too many for one run; name \
             more of them, generate them with knee commute tests, or pass --patterns and --shard to \
             knee commute check"
        );
    }
    tell_capped(capped, wanted.patterns);
    if cut > 0 {
        let of = sets.len();
        tell!(
            "knee: {cut} of {of} sets of operations have more situations than knee explores; the \
             tests of the other situations are missing"
        );
    }
    Ok(lines)
}

/// Prints how many situations have more tests than the limit, if there are any.
pub(super) fn tell_capped(capped: usize, patterns: usize) {
    if capped > 0 {
        tell!(
            "knee: {} than the limit of {patterns} for one situation; raise --patterns to generate \
             all",
            match capped {
                1 => "1 situation has more tests".to_owned(),
                n => format!("{n} situations have more tests"),
            },
        );
    }
}
