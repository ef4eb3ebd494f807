//! Results to compare, from knee or from other tools.
//!
//! In all formats, a result is a set of rates, one per *round*: an invocation of the testcase in
//! its own process. Samples within an invocation share its memory layout and placement. They are
//! averaged, and never counted as independent.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::{fmt, io};

use knee_host::RegularFile;
use knee_host::text::one_line;
use knee_stats::Looks;
use serde::Serialize;

use crate::{
    CaseId, CpuShares, Curve, Family, LatencyGap, Mark, Mode, Origin, PerTask, Point,
    PointCounters, PointLatency, Served,
};

/// Name of the file that describes a run of knee.
pub const RUN_FILE: &str = "run.json";

/// What testcases count unless they say otherwise.
pub const ITERATIONS: &str = "iterations";

/// What a rate belongs to. Output of will-it-scale does not contain all of it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Key {
    /// The case, or its description if the name is unknown.
    #[serde(rename = "testcase")]
    pub case: CaseId,
    /// Processes or threads.
    pub mode: Option<Mode>,
    /// Task count.
    pub tasks: Option<u32>,
}

impl Key {
    /// `threads ×2`, without the unknown parts.
    pub fn place(&self) -> String {
        let mode = self.mode.map(|mode| mode.as_str().to_owned());
        let tasks = self.tasks.map(|tasks| format!("×{tasks}"));
        [mode, tasks].into_iter().flatten().collect::<Vec<_>>().join(" ")
    }
}

impl fmt::Display for Key {
    /// `mmap1 threads ×2`, without the unknown parts.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(format!("{} {}", self.case, self.place()).trim_end())
    }
}

/// The measurements for a key.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Measured {
    /// The rate of each round that counts, per second.
    pub rounds: Vec<f64>,
    /// How many rounds were measured, including disturbed ones that do not count.
    pub measured: usize,
    /// See [`Point::disturbed`].
    pub disturbed: bool,
    /// See [`Point::oversubscribed`].
    pub oversubscribed: bool,
    /// The looks at the rounds, if they were looked at repeatedly.
    pub looks: Option<Looks>,
    /// The number of samples behind the rates, and how many of them are marked as disturbed.
    pub samples: u64,
    /// See `samples`.
    pub marked: u64,
    /// Sample counts by mark.
    pub marks: BTreeMap<Mark, u64>,
    /// How the tasks differ, if the format contains it.
    pub per_task: Option<PerTask>,
    /// How the CPUs spent their time, averaged over the samples, if the format contains it.
    pub cpu: Option<CpuShares>,
    /// How the server and its load used their CPUs, if a server was measured.
    pub server: Option<Served>,
    /// How long single requests or iterations took, if that was measured.
    pub latency: Option<PointLatency>,
    /// See [`Point::latency_gap`].
    pub latency_gap: Option<LatencyGap>,
    /// Events of the processors and the kernel, if they were counted.
    pub counters: Option<PointCounters>,
    /// Why results are missing or incomplete.
    pub gap: Option<String>,
    /// Median speed of the CPUs before and after these rounds, in steps of the reference loop per
    /// second; `None` if the format does not contain it.
    pub reference: Option<f64>,
    /// Median speed of memory before these rounds, in bytes per second that a task read; `None` if
    /// it was not measured.
    pub memory: Option<f64>,
}

/// Information about a testcase.
#[derive(Debug, Clone, PartialEq)]
pub struct CaseInfo {
    /// Its family; `None` for a testcase that knee does not know.
    pub family: Option<Family>,
    /// What one iteration does; empty if unknown.
    pub description: String,
    /// What its rates count, in the plural.
    pub unit: String,
    /// Bytes that one of them moves; 0 if not applicable.
    pub bytes: u64,
    /// Shortest useful interval, in seconds.
    pub min_interval: f64,
    /// Whether it is a command whose rates are invocations, so that times are more meaningful.
    pub timed: bool,
    /// The host that generates the load on a server; `None` for this machine, and for other cases.
    pub load_host: Option<String>,
    /// What runs and with which load, such as the command line, by name. Empty for testcases, and if the
    /// format does not contain it.
    pub settings: BTreeMap<&'static str, String>,
}

impl Default for CaseInfo {
    /// A testcase that counts iterations, without further information.
    fn default() -> Self {
        Self {
            family: None,
            description: String::new(),
            unit: ITERATIONS.to_owned(),
            bytes: 0,
            min_interval: 0.0,
            timed: false,
            load_host: None,
            settings: BTreeMap::new(),
        }
    }
}

impl CaseInfo {
    /// Whether the rates of both count the same, as far as is known: results of will-it-scale have no units.
    pub fn counts_like(&self, other: &Self) -> bool {
        let is_unknown = [self, other].iter().any(|one| one.unit == ITERATIONS);
        self.timed == other.timed && (self.unit == other.unit || is_unknown)
    }
}

impl Measured {
    /// See [`Served::is_bound`].
    pub fn is_bound(&self, case: &CaseId) -> bool {
        self.server.is_some_and(|server| server.is_bound(case))
    }

    /// The point at `tasks`; `None` if there is no round.
    pub fn point(&self, tasks: u32) -> Option<Point> {
        Some(Point {
            per_task: self.per_task,
            cpu: self.cpu,
            server: self.server,
            latency: self.latency.clone(),
            latency_gap: self.latency_gap.clone(),
            counters: self.counters.clone(),
            samples: self.samples,
            marked: self.marked,
            measured: self.measured,
            disturbed: self.disturbed,
            oversubscribed: self.oversubscribed,
            marks: self.marks.clone(),
            ..Point::at_look(tasks, self.rounds.clone(), self.looks)?
        })
    }
}

/// One side of a comparison.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Results {
    /// Where they come from, as the user named it.
    pub source: PathBuf,
    /// All points that were measured, or should have been.
    pub points: BTreeMap<Key, Measured>,
    /// The testcases.
    pub cases: BTreeMap<CaseId, CaseInfo>,
    /// Where and how they were measured, if the format contains it.
    pub origin: Option<Origin>,
}

/// Why results cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ResultsError {
    /// A file that cannot be read.
    #[error("cannot read {}: {error}", .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// A file that does not exist.
    #[error("{}: no such file or directory", .path.display())]
    Missing {
        /// The path.
        path: PathBuf,
    },
    /// An invalid line.
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
        "{} contains no results that knee can read; expected {RUN_FILE} of a run, or CSV files or \
         output of will-it-scale",
        .path.display()
    )]
    Unknown {
        /// The file or directory.
        path: PathBuf,
    },
}

/// The most points of results. A short file can stand for many points, each of which takes a few kilobytes. A hundred
/// testcases at 500 task counts in both modes have this many, and take days.
const MAX_POINTS: usize = 100_000;
/// The most testcases of results. They are compared with each other.
pub(crate) const MAX_CASES: usize = 5_000;
/// The longest name of a testcase, in bytes. Each point has a copy.
const LONGEST_NAME: usize = 1_000;

/// Checks that results do not have too many testcases or points, and that these testcases do not have too long names.
///
/// # Errors
/// They have; the error says what and how many.
pub fn check_size<'c>(
    cases: usize,
    points: usize,
    names: impl Iterator<Item = &'c CaseId>,
) -> Result<(), String> {
    if cases > MAX_CASES {
        return Err(format!("the run has {cases} testcases, and knee reads at most {MAX_CASES}"));
    }
    let longest = names.map(CaseId::to_string).max_by_key(String::len);
    if let Some(name) = longest.filter(|name| name.len() > LONGEST_NAME) {
        return Err(format!(
            "the name of a testcase has {} bytes, and knee reads at most {LONGEST_NAME}; shorten the name \
             that begins with {:?}",
            name.len(),
            name.chars().take(40).collect::<String>()
        ));
    }
    if points > MAX_POINTS {
        return Err(format!(
            "the run has {points} points, and knee reads at most {MAX_POINTS}; name fewer testcases or \
             task counts"
        ));
    }
    Ok(())
}

impl Results {
    /// What the rates of a testcase count, in the plural.
    pub fn unit(&self, case: &CaseId) -> &str {
        self.cases.get(case).map_or(ITERATIONS, |info| &info.unit)
    }

    /// The options of `knee run` whose cost the rates include. Rates with different costs cannot be compared.
    pub fn slowing_options(&self) -> Vec<&'static str> {
        self.origin.as_ref().map_or(Vec::new(), |origin| origin.request.slowing_options())
    }

    /// The first option whose cost only the rates of one of the two results include.
    pub fn different_option(&self, other: &Self) -> Option<&'static str> {
        let (one, other) = (self.slowing_options(), other.slowing_options());
        let differs = |option: &&&str| one.contains(*option) != other.contains(*option);
        one.iter().chain(&other).find(differs).copied()
    }

    /// The identities of all cases with points.
    pub fn measured(&self) -> BTreeSet<&CaseId> {
        self.points.keys().map(|key| &key.case).collect()
    }

    /// Fills in family and description of testcases, which foreign files do not contain.
    pub fn describe(&mut self, known: impl Fn(&CaseId) -> Option<(Family, &'static str)>) {
        for (id, case) in &mut self.cases {
            if let (None, Some((family, description))) = (case.family, known(id)) {
                case.family = Some(family);
                case.description = description.to_owned();
            }
        }
    }

    /// All curves, by name and mode. Results without a mode or task count are on no curve.
    pub fn curves(&self) -> Vec<Curve> {
        let mut curves: BTreeMap<(&CaseId, Mode), Vec<Point>> = BTreeMap::new();
        for (key, measured) in &self.points {
            let (Some(mode), Some(tasks)) = (key.mode, key.tasks) else { continue };
            curves.entry((&key.case, mode)).or_default().extend(measured.point(tasks));
        }
        let curves = curves.into_iter().filter(|(_, points)| !points.is_empty());
        curves.map(|((case, mode), points)| Curve::new(case.clone(), mode, points)).collect()
    }

    /// Results without any point.
    pub fn new(source: &Path) -> Self {
        let source = one_line(&source.to_string_lossy()).into_owned().into();
        Self { source, ..Self::default() }
    }

    /// Adds a round of a testcase of will-it-scale.
    ///
    /// # Errors
    /// There are too many points.
    pub(crate) fn add(&mut self, key: Key, rate: f64, samples: u64) -> Result<(), String> {
        self.cases.entry(key.case.clone()).or_default();
        let measured = self.point(key)?;
        measured.rounds.push(rate);
        measured.measured += 1;
        measured.samples += samples;
        Ok(())
    }

    /// Records that a round of `key` has no result.
    ///
    /// # Errors
    /// There are too many points.
    pub(crate) fn miss(&mut self, key: Key, reason: String) -> Result<(), String> {
        self.point(key)?.gap = Some(reason);
        Ok(())
    }

    fn point(&mut self, key: Key) -> Result<&mut Measured, String> {
        if !self.points.contains_key(&key) {
            check_size(self.cases.len(), self.points.len() + 1, std::iter::once(&key.case))?;
        }
        Ok(self.points.entry(key).or_default())
    }
}

pub(crate) fn read_to_string(path: &Path) -> Result<String, ResultsError> {
    let text = RegularFile::at(path).read_to_string();
    text.map_err(|error| ResultsError::Io { path: path.to_owned(), error: error.into() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_with_different_units_do_not_count_alike_if_both_units_are_known() {
        let counting = |unit: &str| CaseInfo { unit: unit.to_owned(), ..CaseInfo::default() };
        assert!(counting("requests").counts_like(&counting("requests")));
        assert!(!counting("requests").counts_like(&counting("transactions")));
        assert!(counting("builds").counts_like(&CaseInfo::default()));
        let timed = CaseInfo { timed: true, ..counting("requests") };
        assert!(!timed.counts_like(&counting("requests")));
    }
}
