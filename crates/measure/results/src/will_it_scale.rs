//! Results that the binaries of will-it-scale print, and `knee will-it-scale` and `knee show
//! --format will-it-scale` with them.
//!
//! ```text
//! testcase:Anonymous memory mmap/munmap of 128MB
//! warmup
//! min:349200 max:349200 total:349200
//! measurement
//! min:388000 max:388000 total:388000
//! average:388000
//! ```
//!
//! A block is an invocation: one round, whose rate is the mean of the samples after `measurement`.
//! The output contains the description of the testcase, but not its name, the mode or the task
//! count. A file name such as `mmap1_processes.txt` or `mmap1_threads-4.log` contains them.

use std::path::Path;

use crate::results::read_to_string;
use crate::{CaseId, Key, MAX_RATE, MAX_TASKS, Mode, Results, ResultsError};

const TESTCASE: &str = "testcase:";
const MEASUREMENT: &str = "measurement";

/// Whether this is the first line of such output.
pub(super) fn is_header(line: &str) -> bool {
    line.starts_with(TESTCASE)
}

pub(super) fn read(path: &Path) -> Result<Results, ResultsError> {
    parse(&read_to_string(path)?, path)
}

/// One invocation.
struct Block<'t> {
    description: &'t str,
    measuring: bool,
    totals: Vec<f64>,
}

fn parse(text: &str, path: &Path) -> Result<Results, ResultsError> {
    let mut results = Results::new(path);
    let name = Name::of(path);
    let mut block: Option<Block<'_>> = None;
    for (index, line) in text.split_inclusive('\n').enumerate() {
        let is_whole = line.ends_with('\n');
        let malformed = |reason: String| ResultsError::Malformed {
            path: path.to_owned(),
            line: index + 1,
            reason,
        };
        let line = line.trim_end();
        if let Some(description) = line.strip_prefix(TESTCASE) {
            results.end_block(&name, block.take()).map_err(&malformed)?;
            block = Some(Block { description, measuring: false, totals: Vec::new() });
        } else if let Some(block) = &mut block {
            if line == MEASUREMENT {
                block.measuring = true;
            } else if line.starts_with("min:") {
                let total =
                    total(line).ok_or_else(|| malformed(format!("no total in {line:?}")))?;
                if !is_whole {
                    return Err(malformed(format!(
                        "the file ends in the middle of a line, so its number may lack digits: \
                         {line:?}"
                    )));
                }
                if block.measuring {
                    block.totals.push(total);
                }
            } else if !is_known(line) {
                return Err(malformed(format!("not a line of will-it-scale: {line:?}")));
            }
        } else if !line.is_empty() {
            return Err(malformed(format!("expected {TESTCASE:?} before {line:?}")));
        }
    }
    let at_end = |reason| ResultsError::Malformed { path: path.to_owned(), line: 1, reason };
    results.end_block(&name, block).map_err(at_end)?;
    Ok(results)
}

impl Results {
    fn end_block(&mut self, name: &Name, block: Option<Block<'_>>) -> Result<(), String> {
        let Some(block) = block else { return Ok(()) };
        let testcase = name.testcase.clone().unwrap_or_else(|| block.description.to_owned());
        let key = Key { case: CaseId::from_record(&testcase), mode: name.mode, tasks: name.tasks };
        let n = block.totals.len();
        if n == 0 {
            self.miss(key, "an invocation ended before its first measured sample".to_owned())
        } else {
            self.add(key, block.totals.iter().sum::<f64>() / n as f64, n as u64)
        }
    }
}

/// The parts of a file name that describe the content.
#[derive(Default)]
struct Name {
    testcase: Option<String>,
    mode: Option<Mode>,
    tasks: Option<u32>,
}

impl Name {
    fn of(path: &Path) -> Self {
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        for (suffix, mode) in [("_processes", Mode::Processes), ("_threads", Mode::Threads)] {
            let Some((testcase, rest)) = stem.split_once(suffix) else { continue };
            let digits = rest.trim_start_matches(['-', '_', '.', 't']);
            return Self {
                testcase: Some(testcase.to_owned()),
                mode: Some(mode),
                tasks: digits.parse().ok().filter(|tasks| (1..=MAX_TASKS).contains(tasks)),
            };
        }
        Self::default()
    }
}

/// The last field of `min:1 max:2 total:3`.
fn total(line: &str) -> Option<f64> {
    let (_, total) = line.split_once(" total:")?;
    total.trim().parse().ok().filter(|total| (0.0..=MAX_RATE).contains(total))
}

/// `warmup`, `average:388000`, a task's line of `-v`, or nothing.
fn is_known(line: &str) -> bool {
    line.is_empty() || line == "warmup" || line.starts_with("average:") || line.contains(" -> ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const BLOCK: &str = "testcase:Map and unmap\nwarmup\nmin:1 max:1 total:1\nmeasurement\n\
                         min:10 max:10 total:20\n   0 -> 10\nmin:15 max:15 total:30\naverage:25\n";

    fn parsed(name: &str, text: &str) -> Result<Results, ResultsError> {
        parse(text, Path::new(name))
    }

    #[test]
    fn a_block_is_a_round_and_its_samples_are_averaged() {
        let results = parsed("x/mmap1_threads-4.txt", &BLOCK.repeat(2)).unwrap();
        let key = Key { case: CaseId::new("mmap1"), mode: Some(Mode::Threads), tasks: Some(4) };
        assert_eq!(results.points[&key].rounds, [25.0, 25.0]);
        assert_eq!(results.points[&key].samples, 4);
    }

    #[test]
    fn parts_missing_from_a_file_name_are_unknown() {
        let results = parsed("before.txt", BLOCK).unwrap();
        let key = Key { case: CaseId::new("Map and unmap"), mode: None, tasks: None };
        assert_eq!(results.points[&key].rounds, [25.0]);
    }

    #[test]
    fn an_invocation_without_samples_is_a_gap() {
        let results = parsed("a", "testcase:A\nwarmup\nmin:1 max:1 total:1\n").unwrap();
        assert!(results.points.values().next().unwrap().gap.is_some());
    }

    #[test]
    fn a_strange_line_is_named_with_its_number() {
        for (text, says) in [
            ("testcase:A\nsegmentation fault\n", "a:2: not a line of will-it-scale"),
            ("testcase:A\nmin:1 max:2\n", "a:2: no total"),
            ("testcase:A\nmin:1 max:2 total:nan\n", "a:2: no total"),
            ("testcase:A\nmin:1 max:2 total:1e999\n", "a:2: no total"),
            ("testcase:A\nmin:12 max:12 total:1", "a:2: the file ends in the middle of a line"),
            ("hello\n", "a:1: expected"),
        ] {
            let error = parsed("a", text).unwrap_err().to_string();
            assert!(error.starts_with(says), "{error}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(
            text in "((testcase:|measurement|min:| total:|[0-9]{0,30}|[a-z >-]{0,5})\n?){0,30}",
        ) {
            let _ = parsed("x_processes.txt", &text);
        }
    }
}
