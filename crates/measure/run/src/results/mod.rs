//! Results to compare, whoever wrote them: knee's own records, and what will-it-scale printed.
//!
//! Whatever the form, a result is a set of rates, one per *round*: an invocation of the testcase,
//! in a process of its own. Samples within an invocation share its memory layout, its placement
//! and its luck; they are averaged here, and never counted as if they were independent.

mod compared;
mod csv;
mod difference;
mod history;
mod knee;
mod turns;
mod variants;
mod will_it_scale;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

pub use compared::{Compared, ComparedPoint, FamilySummary, Gap, Verdicts};
pub use difference::{Difference, differences};
pub use history::{Series, history, in_time_order};
pub use turns::InTurns;
pub use variants::VariantPair;

use crate::case_id::CaseId;
use crate::job::{Score, Source};
use crate::plan::Case;
use crate::record::{RUN_FILE, RecordError, RunRecord};
use crate::testcase::{Family, Mode};

/// How much of a file is looked at to tell what it is.
const START_BYTES: u64 = 4096;

/// What a rate belongs to. Output of will-it-scale does not say everything.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// What was measured; named by its description where there is no name.
    pub case: CaseId,
    /// Processes or threads.
    pub mode: Option<Mode>,
    /// Number of tasks.
    pub tasks: Option<u32>,
}

/// What was measured of a key.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Measured {
    /// The rate of each round, per second.
    pub rounds: Vec<f64>,
    /// How many samples they are made of, and how many of those are marked as disturbed.
    pub samples: u64,
    /// See `samples`.
    pub marked: u64,
    /// Why there is nothing, or not all that was asked for.
    pub gap: Option<String>,
    /// Whether no round was free of disturbance.
    pub all_disturbed: bool,
    /// Median speed of the machine before these rounds, in steps of the reference loop per second;
    /// `None` where the format does not say.
    pub reference: Option<f64>,
}

/// What is known of a testcase.
#[derive(Debug, Clone, PartialEq)]
pub struct CaseInfo {
    /// Its family; `None` for a testcase that knee does not know.
    pub family: Option<Family>,
    /// What its rates count, in the plural.
    pub unit: String,
    /// Whether it is a command whose rates are invocations, so that their times are of more
    /// interest.
    pub timed: bool,
}

impl CaseInfo {
    /// Of a testcase of a record.
    fn of(case: &Case) -> Self {
        Self {
            family: Some(case.family),
            unit: case.unit.clone(),
            timed: matches!(
                &case.source,
                Source::Command { command } if command.score == Score::Time
            ),
        }
    }
}

/// One side of a comparison.
#[derive(Debug, Clone, PartialEq)]
pub struct Results {
    /// Where they come from, as the user named it.
    pub source: PathBuf,
    /// All that was measured, or should have been.
    pub points: BTreeMap<Key, Measured>,
    /// The testcases.
    pub cases: BTreeMap<CaseId, CaseInfo>,
    /// What was asked for and the machine, where the format says so.
    pub run: Option<RunRecord>,
}

/// Why results cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ResultsError {
    /// A record that cannot be read.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// A file that cannot be read.
    #[error("cannot read {}: {error}", .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// There is no such file.
    #[error("{}: there is no such file or directory", .path.display())]
    Missing {
        /// What was named.
        path: PathBuf,
    },
    /// A line that does not belong there.
    #[error("{}:{line}: {reason}", .path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What is wrong, with the text in question.
        reason: String,
    },
    /// Neither a record nor output of will-it-scale.
    #[error(
        "{} holds no results that knee knows: neither {RUN_FILE} of a run, nor CSV files or \
         output of will-it-scale",
        .path.display()
    )]
    Unknown {
        /// The file or directory.
        path: PathBuf,
    },
}

/// What kind of results a file or directory holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A record of `knee run`.
    Record,
    /// A CSV file of will-it-scale's runtest.py, or a directory of them.
    Csv,
    /// What a binary of will-it-scale printed, once or several times.
    WillItScale,
}

impl Kind {
    /// Looks at `path`; `None` for plain numbers and everything else.
    pub fn of(path: &Path) -> Result<Option<Self>, ResultsError> {
        let failed = |error| ResultsError::Io { path: path.to_owned(), error };
        if path.is_dir() {
            if path.join(RUN_FILE).exists() {
                return Ok(Some(Self::Record));
            }
            let csv = !csv::files(path).map_err(failed)?.is_empty();
            return Ok(csv.then_some(Self::Csv));
        }
        if path.file_name().is_some_and(|name| name == RUN_FILE) {
            return Ok(Some(Self::Record));
        }
        if !path.is_file() {
            return Ok(None);
        }
        let [first, second] = first_lines(path).map_err(failed)?;
        // Plain numbers may begin with a comment too, but not with that header after it.
        let named = first.starts_with('#') && csv::is_header(&second);
        Ok(match first.as_str() {
            line if csv::is_header(line) || named => Some(Self::Csv),
            line if will_it_scale::is_header(line) => Some(Self::WillItScale),
            _ => None,
        })
    }
}

/// The rounds of one testcase in one mode, by number of tasks.
#[derive(Debug, Clone, PartialEq)]
pub struct RoundsOfCurve {
    /// What was measured.
    pub case: CaseId,
    /// Processes or threads.
    pub mode: Option<Mode>,
    /// (tasks, rates of the rounds), fewest tasks first; without points that have no rounds.
    pub points: Vec<(u32, Vec<f64>)>,
}

impl Results {
    /// All that was measured.
    pub fn measured(&self) -> BTreeSet<&CaseId> {
        self.points.keys().map(|key| &key.case).collect()
    }

    /// Fills in the families of testcases, which foreign files do not tell.
    pub fn classify(&mut self, family: impl Fn(&CaseId) -> Option<Family>) {
        for (id, case) in &mut self.cases {
            case.family = case.family.or_else(|| family(id));
        }
    }

    /// All curves, by name and mode. What does not say its number of tasks is on none.
    pub fn curves(&self) -> Vec<RoundsOfCurve> {
        let mut curves: Vec<RoundsOfCurve> = Vec::new();
        for (key, measured) in &self.points {
            let Some(tasks) = key.tasks.filter(|_| !measured.rounds.is_empty()) else { continue };
            let point = (tasks, measured.rounds.clone());
            match curves.last_mut() {
                Some(curve) if curve.case == key.case && curve.mode == key.mode => {
                    curve.points.push(point);
                }
                _ => curves.push(RoundsOfCurve {
                    case: key.case.clone(),
                    mode: key.mode,
                    points: vec![point],
                }),
            }
        }
        curves
    }

    /// Reads results of any known kind.
    ///
    /// # Errors
    /// Names the file and the place. Measurements that are missing are no error: they are marked
    /// as gaps.
    pub fn read(path: &Path) -> Result<Self, ResultsError> {
        match Kind::of(path)? {
            Some(Kind::Record) => knee::read(path),
            Some(Kind::Csv) => csv::read(path),
            Some(Kind::WillItScale) => will_it_scale::read(path),
            None if path.exists() => Err(ResultsError::Unknown { path: path.to_owned() }),
            None => Err(ResultsError::Missing { path: path.to_owned() }),
        }
    }

    fn new(source: &Path) -> Self {
        Self {
            source: source.to_owned(),
            points: BTreeMap::new(),
            cases: BTreeMap::new(),
            run: None,
        }
    }

    /// Adds a round, of a testcase of will-it-scale's.
    fn add(&mut self, key: Key, rate: f64, samples: u64) {
        self.cases.entry(key.case.clone()).or_insert_with(|| CaseInfo {
            family: None,
            unit: "iterations".to_owned(),
            timed: false,
        });
        let measured = self.points.entry(key).or_default();
        measured.rounds.push(rate);
        measured.samples += samples;
    }

    /// Notes that a round of `key` has no result.
    fn miss(&mut self, key: Key, reason: String) {
        self.points.entry(key).or_default().gap = Some(reason);
    }
}

/// The first two lines, as far as they are text; of a file without lines no more than is needed.
fn first_lines(path: &Path) -> io::Result<[String; 2]> {
    let mut start = BufReader::new(File::open(path)?.take(START_BYTES));
    let mut line = || -> io::Result<String> {
        let mut line = Vec::new();
        start.read_until(b'\n', &mut line)?;
        Ok(String::from_utf8_lossy(&line).trim_end().to_owned())
    };
    Ok([line()?, line()?])
}

fn read_to_string(path: &Path) -> Result<String, ResultsError> {
    fs::read_to_string(path).map_err(|error| ResultsError::Io { path: path.to_owned(), error })
}
