//! Tests, one line of JSON each: from a file, or generated for operations.

use std::ops::ControlFlow;
use std::path::Path;

use anyhow::Context;
use knee_commute::{Limits, Model, Test, Wanted, in_order, models, pairs};

use super::interface::operations;

/// The interface that the running kernel implements.
const INTERFACE: &str = "posix";

/// The tests of `posix`, one per line, from a file or generated for operations; with `differing`,
/// also those whose calls do not commute.
pub(super) fn tests(
    operations: &[String],
    file: Option<&Path>,
    differing: bool,
) -> anyhow::Result<Vec<u8>> {
    if let Some(path) = file {
        return read_tests(path);
    }
    let models = models();
    let model = models.iter().find(|model| model.name() == INTERFACE).expect("it is one of ours");
    make_tests(&**model, operations, differing)
}

/// Reads the tests from a file or from standard input.
pub(super) fn read_tests(path: &Path) -> anyhow::Result<Vec<u8>> {
    if path == Path::new("-") {
        let mut lines = Vec::new();
        std::io::Read::read_to_end(&mut std::io::stdin().lock(), &mut lines)?;
        return Ok(lines);
    }
    std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))
}

/// Generates the tests of operations of a model.
pub(super) fn make_tests(
    model: &dyn Model,
    operations: &[String],
    differing: bool,
) -> anyhow::Result<Vec<u8>> {
    let sets = sets(model, operations, differing)?;
    let wanted = Wanted { differing, ..Wanted::default() };
    let mut lines = Vec::new();
    let mut failed = None;
    let generate = |nr: usize| {
        let mut lines = Vec::new();
        let generated = model.generate(&sets[nr], &Limits::default(), &wanted, &mut |test| {
            push_line(&mut lines, &test);
            ControlFlow::Continue(())
        });
        generated.map(|_| lines)
    };
    in_order(sets.len(), generate, |_, of_set| match of_set {
        Ok(of_set) => {
            lines.extend(of_set);
            ControlFlow::Continue(())
        }
        Err(error) => {
            failed = Some(error);
            ControlFlow::Break(())
        }
    });
    match failed {
        Some(error) => Err(error.into()),
        None => Ok(lines),
    }
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
