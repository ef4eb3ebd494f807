//! Results in the CSV files of will-it-scale's `runtest.py`: one per testcase, named after it.
//!
//! ```text
//! tasks,processes,processes_idle,threads,threads_idle,linear
//! 0,0,100,0,100,0
//! 1,1234567,50.02,1230000,50.00,1234567
//! ```
//!
//! A line has the average of one invocation in each mode, so a file is one round. `knee show
//! --format will-it-scale-csv` prints the same, a block with a comment for each testcase.

use std::path::{Path, PathBuf};
use std::{fs, io};

use crate::results::{MAX_CASES, read_to_string};
use crate::{CaseId, Key, MAX_RATE, MAX_TASKS, Mode, Results, ResultsError};

/// The columns that knee reads; later columns differ between versions.
const HEADER: [&str; 5] = ["tasks", "processes", "processes_idle", "threads", "threads_idle"];
/// The columns of the rates.
const RATES: [(usize, Mode); 2] = [(1, Mode::Processes), (3, Mode::Threads)];

/// Whether this is the header of a block.
pub(super) fn is_header(line: &str) -> bool {
    fields(line).starts_with(&HEADER)
}

/// The CSV files in a directory, by name.
pub(super) fn files(dir: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "csv") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

pub(super) fn read(path: &Path) -> Result<Results, ResultsError> {
    let mut results = Results::new(path);
    let files = if path.is_dir() {
        files(path).map_err(|error| ResultsError::Io { path: path.to_owned(), error })?
    } else {
        vec![path.to_owned()]
    };
    // Each is a testcase.
    if files.len() > MAX_CASES {
        let reason =
            format!("it contains {} CSV files, and knee reads at most {MAX_CASES}", files.len());
        return Err(ResultsError::Io { path: path.to_owned(), error: io::Error::other(reason) });
    }
    for file in files {
        parse(&read_to_string(&file)?, &file, &mut results)?;
    }
    Ok(results)
}

/// Adds the content of one file. `path` names its testcase, unless lines such as `# mmap1` do.
fn parse(text: &str, path: &Path, results: &mut Results) -> Result<(), ResultsError> {
    let mut testcase = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let mut columns = None;
    let mut is_empty = true;
    for (index, line) in text.lines().enumerate() {
        let malformed = |reason: String| ResultsError::Malformed {
            path: path.to_owned(),
            line: index + 1,
            reason,
        };
        if let Some(name) = line.strip_prefix("# ") {
            // The table before this comment is empty.
            if is_empty && columns.is_some() {
                results.miss_all_of(&testcase).map_err(&malformed)?;
            }
            name.trim().clone_into(&mut testcase);
            (columns, is_empty) = (None, true);
            continue;
        }
        let fields = fields(line);
        if line.trim().is_empty() {
            continue;
        }
        if is_header(line) {
            columns = Some(fields.len());
            continue;
        }
        let columns = columns.unwrap_or(HEADER.len());
        // A truncated file may end within a number, and the rest of the number is still valid.
        if fields.len() < columns {
            return Err(malformed(format!(
                "{} fields, but the table header has {columns}: {line:?}",
                fields.len(),
            )));
        }
        let tasks = fields[0];
        let tasks: u32 = tasks
            .parse()
            .ok()
            .filter(|&tasks| tasks <= MAX_TASKS)
            .ok_or_else(|| malformed(format!("{tasks:?} is not a task count")))?;
        // The artificial origin of the plot.
        if tasks == 0 {
            continue;
        }
        is_empty = false;
        for (column, mode) in RATES {
            let text = fields[column];
            let rate: f64 = text
                .parse()
                .ok()
                .filter(|rate: &f64| rate.abs() <= MAX_RATE)
                .ok_or_else(|| malformed(format!("{text:?} is not a rate")))?;
            let key =
                Key { case: CaseId::from_record(&testcase), mode: Some(mode), tasks: Some(tasks) };
            let added = match rate < 0.0 {
                true => results.miss(key, "will-it-scale recorded no result".to_owned()),
                false => results.add(key, rate, 1),
            };
            added.map_err(&malformed)?;
        }
    }
    if is_empty {
        let malformed = |reason| ResultsError::Malformed { path: path.to_owned(), line: 1, reason };
        results.miss_all_of(&testcase).map_err(&malformed)?;
    }
    Ok(())
}

impl Results {
    /// Records a table that has no lines except a header.
    fn miss_all_of(&mut self, testcase: &str) -> Result<(), String> {
        let key = Key { case: CaseId::from_record(testcase), mode: None, tasks: None };
        self.miss(key, "its table is empty".to_owned())
    }
}

fn fields(line: &str) -> Vec<&str> {
    line.split(',').map(str::trim).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parsed(text: &str) -> Result<Results, ResultsError> {
        let mut results = Results::new(Path::new("mmap1.csv"));
        parse(text, Path::new("mmap1.csv"), &mut results).map(|()| results)
    }

    const FILE: &str = "tasks,processes,processes_idle,threads,threads_idle,linear\n\
                        0,0,100,0,100,0\n1,100,50.0,90,50.0,100\n2,150,0,-1,0,200\n";

    #[test]
    fn a_file_is_a_round_of_each_mode() {
        let results = parsed(FILE).unwrap();
        let key =
            |mode, tasks| Key { case: CaseId::new("mmap1"), mode: Some(mode), tasks: Some(tasks) };
        assert_eq!(results.points.len(), 4);
        assert_eq!(results.points[&key(Mode::Processes, 2)].rounds, [150.0]);
        assert!(results.points[&key(Mode::Threads, 2)].gap.is_some());
    }

    #[test]
    fn more_points_than_the_limit_are_refused() {
        let mut text = HEADER.join(",") + "\n";
        let points = |text: &str| parsed(text).map(|results| results.points.len());
        for nr in 0..100_000 / (2 * MAX_TASKS) {
            let _ = std::fmt::Write::write_fmt(&mut text, format_args!("# t{nr}\n"));
            for tasks in 1..=MAX_TASKS {
                let _ = std::fmt::Write::write_fmt(&mut text, format_args!("{tasks},1,0,1,0\n"));
            }
        }
        assert!(points(&text).unwrap() <= 100_000);
        let more: String = (1..=MAX_TASKS).map(|tasks| format!("{tasks},1,0,1,0\n")).collect();
        let refused = points(&format!("{text}# more\n{more}")).unwrap_err().to_string();
        assert!(refused.contains("points, and knee reads at most 100000"), "{refused}");
        let name = "x".repeat(1_001);
        let refused = points(&format!("# {name}\n1,1,0,1,0\n")).unwrap_err().to_string();
        assert!(refused.contains("has 1001 bytes, and knee reads at most 1000"), "{refused}");
    }

    #[test]
    fn blocks_with_names_are_testcases_of_their_own_and_the_same_name_is_another_round() {
        let text = format!("# read1\n{FILE}\n# open1\n{FILE}# read1\n{FILE}");
        let results = parsed(&text).unwrap();
        assert_eq!(results.cases.len(), 2);
        let first =
            results.points.iter().find(|(key, _)| key.case == CaseId::new("read1")).unwrap();
        assert_eq!(first.1.rounds, [100.0, 100.0]);
    }

    #[test]
    fn a_table_without_lines_is_a_gap() {
        let head = "tasks,processes,processes_idle,threads,threads_idle,linear\n0,0,100,0,100,0\n";
        for (text, testcases) in [
            ("", vec!["mmap1"]),
            (head, vec!["mmap1"]),
            (&format!("# of 2013\n# read1\n{head}# open1\n"), vec!["open1", "read1"]),
        ] {
            let results = parsed(text).unwrap();
            let gaps: Vec<&str> =
                results.points.keys().map(|key| key.case.testcase.as_str()).collect();
            assert_eq!(gaps, testcases);
            assert!(results.points.values().all(|measured| measured.gap.is_some()));
        }
    }

    #[test]
    fn a_bad_line_is_named_with_its_number_and_text() {
        for (line, says) in [
            ("2,1", "2 fields"),
            ("3,100,50.0,9,50.0", "5 fields, but the table header has 6"),
            ("x,1,2,3,4,5", "\"x\" is not a task count"),
            ("3,fast,2,3,4,5", "\"fast\" is not a rate"),
            ("3,NaN,2,3,4,5", "\"NaN\" is not a rate"),
            ("3,1,2,1e999,4,5", "\"1e999\" is not a rate"),
        ] {
            let error = parsed(&format!("{FILE}{line}\n")).unwrap_err().to_string();
            assert!(error.starts_with("mmap1.csv:5:") && error.contains(says), "{error}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "([0-9#,.\\-a-z ]{0,12}\n?){0,20}") {
            let _ = parsed(&text);
        }
    }
}
