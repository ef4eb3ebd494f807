//! Tests, one line of JSON each: from a file, or generated for operations.

use std::ops::ControlFlow;
use std::path::Path;

use anyhow::{Context, anyhow};
use knee_commute::{Limits, Model, Test, Wanted, in_order, models, pairs};
use knee_host::json::fault;
use knee_host::regular_file::{read_named, read_whole};
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::interface::operations;
use crate::exit::bail_usage;
use crate::progress::{Amount, Progress};

/// The interface that the running kernel implements.
const INTERFACE: &str = "posix";

/// The model of the interface that the running kernel implements.
pub(super) fn posix() -> Box<dyn Model> {
    models().into_iter().find(|model| model.name() == INTERFACE).expect("it is one of ours")
}

/// The tests of a model, one per line, from a file (`-` is standard input) or generated for
/// operations; with `differing`, also those whose calls do not commute. If `among` is not empty, generates
/// only tests of the operations that it names.
pub(super) fn tests(
    model: &dyn Model,
    operations: &[String],
    among: &[&str],
    file: Option<&Path>,
    differing: bool,
) -> anyhow::Result<Vec<u8>> {
    match file {
        None => generated(model, operations, among, differing),
        Some(path) if path == Path::new("-") => {
            read_whole(std::io::stdin()).context("cannot read standard input")
        }
        Some(path) => read_named(path).with_context(|| format!("cannot read {}", path.display())),
    }
}

/// The tests in `lines`, each with its line.
///
/// # Errors
/// A line is not a test.
pub(super) fn heads(lines: &[u8]) -> anyhow::Result<Vec<(Head, &[u8])>> {
    let lines = (1..).zip(lines.split_inclusive(|byte| *byte == b'\n'));
    let tests = lines.filter(|(_, line)| !line.trim_ascii().is_empty());
    tests.map(|(nr, line)| Ok((head(nr, line)?, line))).collect()
}

/// The test in line number `nr` of the input.
fn head(nr: usize, line: &[u8]) -> anyhow::Result<Head> {
    serde_json::from_slice(line.trim_ascii_end())
        .map_err(|error| anyhow!("line {nr} of the input is not a test: {}", fault("it", &error)))
}

/// What identifies and classifies a test.
#[derive(Deserialize)]
pub(super) struct Head {
    pub(super) id: String,
    pub(super) commute: Option<bool>,
    #[serde(default)]
    pub(super) calls: Vec<IgnoredAny>,
}

fn generated(
    model: &dyn Model,
    operations: &[String],
    among: &[&str],
    differing: bool,
) -> anyhow::Result<Vec<u8>> {
    let mut sets = sets(model, operations, differing)?;
    if !among.is_empty() {
        let names = model.operations();
        let is_missing = |name: &&String| !among.contains(&name.as_str());
        if let Some(missing) = operations.iter().find(is_missing) {
            let known = among.join(", ");
            bail_usage!("the kernel does not have the call {missing}; it has {known}");
        }
        sets.retain(|set| set.iter().all(|nr| among.contains(&names[*nr].0)));
    }
    let wanted = Wanted { differing, ..Wanted::default() };
    let mut lines = Vec::new();
    let mut failed = Ok(());
    let mut progress = Progress::new(false);
    let generate = |nr: usize| {
        let mut lines = Vec::new();
        let generated = model.generate(&sets[nr], &Limits::default(), &wanted, &mut |test| {
            push_line(&mut lines, &test);
            ControlFlow::Continue(())
        });
        generated.map(|_| lines)
    };
    in_order(sets.len(), generate, |nr, of_set| match of_set {
        Ok(of_set) => {
            lines.extend(of_set);
            let (done, of) = (nr as u64 + 1, sets.len() as u64);
            let amount = Amount { done, of, unit: "sets of operations" };
            progress.show(&amount, || "generates tests".to_owned());
            ControlFlow::Continue(())
        }
        Err(error) => {
            failed = Err(error);
            ControlFlow::Break(())
        }
    });
    failed?;
    Ok(lines)
}

/// Appends a test to `lines`.
pub(super) fn push_line(lines: &mut Vec<u8>, test: &Test) {
    serde_json::to_writer(&mut *lines, test).expect("a test is plain data");
    lines.push(b'\n');
}

/// The sets of operations to call together; with `also_alone`, also each operation alone.
pub(super) fn sets(
    model: &dyn Model,
    operations: &[String],
    also_alone: bool,
) -> anyhow::Result<Vec<Vec<usize>>> {
    let named = self::operations(model, operations)?;
    let mut alone: Vec<Vec<usize>> = match named.as_slice() {
        [] => (0..model.operations().len()).map(|nr| vec![nr]).collect(),
        named => named.iter().map(|nr| vec![*nr]).collect(),
    };
    alone.dedup();
    let together: Vec<Vec<usize>> = match named.as_slice() {
        [] => pairs(model).into_iter().map(Vec::from).collect(),
        [one] => {
            let with_it = pairs(model).into_iter().filter(|pair| pair.contains(one));
            with_it.map(Vec::from).collect()
        }
        at_once => vec![at_once.to_vec()],
    };
    Ok(if also_alone { [alone, together].concat() } else { together })
}
