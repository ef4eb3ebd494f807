//! Tests, one line of JSON each.

use std::path::Path;

use anyhow::{Context, anyhow};
use knee_commute::{Model, Test, models};
use knee_host::json::fault;
use knee_host::regular_file::{read_named, read_whole};
use knee_trace::findings::require_operations;
use serde::Deserialize;
use serde::de::IgnoredAny;

/// The interface that the running kernel implements.
const INTERFACE: &str = "posix";

/// The model of the interface that the running kernel implements.
pub(super) fn posix() -> Box<dyn Model> {
    models().into_iter().find(|model| model.name() == INTERFACE).expect("it is one of ours")
}

/// The tests in a file, one per line; `-` is standard input.
pub(super) fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    match path == Path::new("-") {
        true => read_whole(std::io::stdin()).context("cannot read standard input"),
        false => read_named(path).with_context(|| format!("cannot read {}", path.display())),
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

/// The longest line of a test. The values of its set-up can take a hundred times as much memory. knee's own tests have a
/// few kilobytes.
const LONGEST_LINE: usize = 1 << 20;

/// The test in line number `nr` of the input.
fn head(nr: usize, line: &[u8]) -> anyhow::Result<Head> {
    let refused = |reason| anyhow!("line {nr} of the input is not a test: {reason}");
    if line.len() > LONGEST_LINE {
        return Err(refused(format!("it has more than {} MiB", LONGEST_LINE >> 20)));
    }
    let head: Head = serde_json::from_slice(line.trim_ascii_end())
        .map_err(|error| refused(fault("it", &error)))?;
    require_operations(&head.id).map_err(refused)?;
    match head.id.contains(char::is_control) {
        true => Err(refused(format!(
            "the id {:?} contains control characters; use another id",
            head.id
        ))),
        false => Ok(head),
    }
}

/// What identifies and classifies a test.
#[derive(Deserialize)]
pub(super) struct Head {
    pub(super) id: String,
    pub(super) commute: Option<bool>,
    #[serde(default)]
    pub(super) calls: Vec<IgnoredAny>,
}

/// Appends a test to `lines`.
pub(super) fn push_line(lines: &mut Vec<u8>, test: &Test) {
    serde_json::to_writer(&mut *lines, test).expect("a test is plain data");
    lines.push(b'\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_is_too_long_for_a_test_is_refused() {
        let line = |length: usize| {
            let test = "{\"id\":\"open,close/0.0\"}";
            format!("{test}{}\n", " ".repeat(length - test.len() - 1))
        };
        assert_eq!(heads(line(LONGEST_LINE).as_bytes()).unwrap().len(), 1);
        let Err(error) = heads(line(LONGEST_LINE + 1).as_bytes()) else { panic!("it is accepted") };
        assert!(error.to_string().ends_with("is not a test: it has more than 1 MiB"), "{error}");
    }

    #[test]
    fn a_test_whose_id_would_add_lines_to_the_output_is_refused() {
        let lines = b"{\"id\":\"open,close/0.0\"}\n{\"id\":\"open,close\\nall tests passed/1\"}\n";
        let Err(error) = heads(lines) else { panic!("the second line is accepted") };
        assert_eq!(
            error.to_string(),
            "line 2 of the input is not a test: the id \"open,close\\nall tests passed/1\" contains \
             control characters; use another id"
        );
    }
}
