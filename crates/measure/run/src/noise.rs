//! The noise floor of a machine: the result of A/A comparisons, kept for later runs.
//!
//! An A/A test of will-it-scale reported 16 of 45 identical pairs as different. `knee run --aa`
//! measures, for each point, how much two groups of identical rounds differ on this machine. It
//! adds the result to a file in the user's state directory (schemas/noise.schema.json). The
//! difference depends on the length of rounds and on the placement of tasks, so a floor applies
//! only to runs with the same conditions.

use std::io;
use std::path::{Path, PathBuf};

use knee_host::json::{Head, fault_in_file};
use knee_host::{Placement, RegularFile, fixed, write_atomically};
use knee_results::{CaseId, PointId, Request, Results};
use knee_stats::{median, noise_floor};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::record::{Machine, RoundSummary, Rounds, RunRecord};

/// Version of the file that this knee writes. Files of version 1 do not contain the conditions of
/// their floors, so knee ignores them.
pub const SCHEMA: u32 = 2;
/// The name of the file of saved floors.
const NAME: &str = "noise.json";

/// Default rounds of an A/A run: two groups as large as an ordinary run.
pub const AA_ROUNDS: u32 = 10;
/// Fewest rounds of an A/A run; with fewer, [`noise_floor`] cannot form two groups.
pub const AA_ROUNDS_AT_LEAST: u32 = 4;

/// Upper limit for the relative difference between medians of identical rounds.
const RELATIVE: std::ops::RangeInclusive<f64> = 0.0..=1e6;
/// Products of the same decimal numbers may differ in the last bits.
const ROUNDING: f64 = 1e-9;

/// Why floors cannot be read or saved.
#[derive(Debug, thiserror::Error)]
pub enum NoiseError {
    /// No directory is configured for them.
    #[error("neither XDG_STATE_HOME nor HOME is set; set XDG_STATE_HOME to a writable directory")]
    NoPlace,
    /// The file cannot be used.
    #[error("{}: {error}; set XDG_STATE_HOME to a writable directory", .path.display())]
    Io {
        /// The file, or the directory for it.
        path: PathBuf,
        /// The system's error. It is part of the message, and not a `source`, which would repeat
        /// it.
        error: io::Error,
    },
    /// A file that knee did not write, or that is damaged.
    #[error(
        "{}: {reason}; remove the file, and measure the noise floor again: knee run --aa",
        .path.display()
    )]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What is wrong, and where.
        reason: String,
    },
    /// A newer knee wrote it.
    #[error("{} has schema {found}, but this version of knee reads {SCHEMA}; use the version that \
        wrote it",
            .path.display())]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: u64,
    },
}

/// The measurement parameters of a point that affect its noise.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Conditions {
    /// Seconds per sample.
    pub interval: f64,
    /// Samples per round.
    pub samples: u64,
    /// The placement order.
    pub placement: Placement,
}

impl Conditions {
    /// The parameters with which a run measures a testcase whose shortest useful interval is
    /// `shortest` seconds.
    pub fn of(request: &Request, shortest: f64) -> Self {
        Self {
            interval: request.interval.max(shortest),
            samples: request.samples,
            placement: request.placement,
        }
    }

    /// Whether rounds have the same length and tasks the same placement as in `other`.
    pub fn alike(&self, other: &Self) -> bool {
        let seconds = |c: &Self| c.interval * c.samples as f64;
        self.placement == other.placement && (seconds(self) / seconds(other) - 1.0).abs() < ROUNDING
    }
}

/// The noise of one point.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PointNoise {
    /// The point.
    #[serde(flatten)]
    pub point: PointId,
    /// How it was measured.
    #[serde(flatten)]
    pub conditions: Conditions,
    /// The relative difference of medians that 95% of A/A comparisons stay below.
    pub relative: f64,
    /// The number of rounds it is computed from.
    pub rounds: usize,
    /// When the run began, RFC 3339 in UTC.
    pub measured_at: String,
}

/// The noise floors of one machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NoiseFloors {
    /// Version of this format: 2.
    pub schema: u32,
    /// The machine they hold for.
    #[serde(flatten)]
    pub machine: Machine,
    /// Median over the points. Used for points that were not measured.
    pub typical: f64,
    /// The points, with one entry for each set of measurement parameters.
    pub points: Vec<PointNoise>,
}

impl NoiseFloors {
    /// Computes floors from the finished `rounds` of an A/A run; `None` if no point has one. A point that failed,
    /// or has fewer than [`AA_ROUNDS_AT_LEAST`] undisturbed rounds, has none: it would replace the floor of a quiet
    /// machine, and hide changes.
    pub fn of_run(run: &RunRecord, rounds: &Rounds) -> Option<Self> {
        let has_failed = |point: &PointId| run.failures.iter().any(|f| f.point == *point);
        let points = run
            .points()
            .into_iter()
            .filter(|point| !has_failed(point))
            .filter_map(|point| {
                let clean = rounds.of(&point).filter_map(RoundSummary::clean_rate);
                let floor = noise_floor(&clean.collect::<Vec<f64>>())?;
                Some(PointNoise {
                    conditions: Conditions::of(&run.request, run.shortest_interval(&point.case)),
                    point,
                    relative: floor.relative,
                    rounds: floor.rounds,
                    measured_at: run.environment.started_at.clone(),
                })
            })
            .collect();
        Self::new(Machine::from(&run.environment), points)
    }

    fn new(machine: Machine, points: Vec<PointNoise>) -> Option<Self> {
        let typical = median(&points.iter().map(|p| p.relative).collect::<Vec<_>>())?;
        Some(Self { schema: SCHEMA, machine, typical, points })
    }

    /// The floor of `point`, or the typical one.
    pub fn of(&self, point: &PointId) -> f64 {
        self.measured(point).unwrap_or(self.typical)
    }

    /// The floor of `point`, if it was measured itself.
    pub fn measured(&self, point: &PointId) -> Option<f64> {
        self.points.iter().find(|p| p.point == *point).map(|p| p.relative)
    }

    /// The saved floors for the machine of `run` that were measured under the same conditions as
    /// its points; `None` if there are none.
    ///
    /// # Errors
    /// The file exists but cannot be used; the error names it.
    pub fn kept_for(run: &RunRecord) -> Result<Option<Self>, NoiseError> {
        let kept = read(&Machine::from(&run.environment))?;
        let shortest = |case: &CaseId| run.shortest_interval(case);
        Ok(kept.and_then(|floors| floors.measured_as(&run.request, shortest)))
    }

    /// Like [`kept_for`](Self::kept_for), for results. An unreadable file counts as missing.
    pub fn load(results: &Results) -> Option<Self> {
        let origin = results.origin.as_ref()?;
        let kept = read(&Machine::from(&origin.environment)).ok().flatten()?;
        let shortest = |case: &CaseId| results.cases.get(case).map_or(0.0, |c| c.min_interval);
        kept.measured_as(&origin.request, shortest)
    }

    /// Parses the floors in the text of the file `path`; `None` for a version without conditions.
    ///
    /// # Errors
    /// The error names the file and the place in it.
    pub fn parse(text: &[u8], path: &Path) -> Result<Option<Self>, NoiseError> {
        let malformed = |reason: String| NoiseError::Malformed { path: path.to_owned(), reason };
        match Head::of(text).map_err(|e| malformed(fault_in_file(&e)))?.schema {
            None => return Err(malformed("it has no schema".to_owned())),
            Some(older) if older < SCHEMA.into() => return Ok(None),
            Some(found) if found > SCHEMA.into() => {
                return Err(NoiseError::Newer { path: path.to_owned(), found });
            }
            Some(_) => {}
        }
        let floors: Self =
            serde_json::from_slice(text).map_err(|e| malformed(fault_in_file(&e)))?;
        match floors.points.iter().find(|noise| !RELATIVE.contains(&noise.relative)) {
            Some(noise) => {
                Err(malformed(format!("{:?} is not a relative difference", noise.relative)))
            }
            None => Ok(Some(floors)),
        }
    }

    fn measured_as(mut self, request: &Request, shortest: impl Fn(&CaseId) -> f64) -> Option<Self> {
        let conditions = |p: &PointNoise| Conditions::of(request, shortest(&p.point.case));
        self.points.retain(|p| p.conditions.alike(&conditions(p)));
        Self::new(self.machine, self.points)
    }

    /// All saved floors of `machine`; `None` if there are none.
    ///
    /// # Errors
    /// The file exists but cannot be used; the error names it.
    pub fn kept_on(machine: &Machine) -> Result<Option<Self>, NoiseError> {
        read(machine)
    }

    /// Checks that floors of `machine` can be saved, before anybody measures them.
    ///
    /// # Errors
    /// Those of [`save`](Self::save).
    pub fn check_place(machine: &Machine) -> Result<(), NoiseError> {
        let file = file().ok_or(NoiseError::NoPlace)?;
        let dir = file.parent().unwrap_or(Path::new("/"));
        let made = create(dir).and_then(tempfile::tempfile_in);
        made.map_err(|error| NoiseError::Io { path: dir.to_owned(), error })?;
        read(machine).map(drop)
    }

    /// Saves these floors for later runs, together with the saved ones of this machine. Returns the
    /// file.
    ///
    /// # Errors
    /// The file cannot be written, or the saved floors cannot be read and would be lost.
    pub fn save(self) -> Result<PathBuf, NoiseError> {
        let file = file().ok_or(NoiseError::NoPlace)?;
        let named = |error| NoiseError::Io { path: file.clone(), error };
        let dir = create(file.parent().unwrap_or(Path::new("/"))).map_err(named)?;
        let all = match read(&self.machine)? {
            Some(kept) => kept.updated_by(self),
            None => self,
        };
        let mut text = serde_json::to_vec_pretty(&all).map_err(|e| named(e.into()))?;
        text.push(b'\n');
        write_atomically(&dir.join(NAME), &text).map_err(named)?;
        Ok(file)
    }

    /// These floors, with those of `newer` added. Of two floors for the same point and conditions,
    /// the newer one stays.
    fn updated_by(mut self, newer: Self) -> Self {
        let again = |p: &PointNoise| {
            newer.points.iter().any(|n| n.point == p.point && n.conditions.alike(&p.conditions))
        };
        self.points.retain(|p| !again(p));
        self.points.extend(newer.points);
        Self::new(self.machine, self.points).expect("the newer floors have points")
    }
}

/// Creates the directory of the file, and returns its real path. Refuses one that another user can replace.
fn create(dir: &Path) -> io::Result<PathBuf> {
    Ok(fixed::create(dir, fixed::Readers::Own)?)
}

/// All saved floors of `machine`.
fn read(machine: &Machine) -> Result<Option<NoiseFloors>, NoiseError> {
    let Some(path) = file() else { return Ok(None) };
    let text = match RegularFile::at(&path).own().read().map_err(io::Error::from) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(NoiseError::Io { path, error }),
    };
    let floors = NoiseFloors::parse(&text, &path)?;
    Ok(floors.filter(|floors| floors.machine == *machine))
}

/// The file of the saved floors, in the state directory of the XDG base directory specification.
/// `None` if the environment names no such directory.
pub fn file() -> Option<PathBuf> {
    let absolute = |name| std::env::var_os(name).map(PathBuf::from).filter(|p| p.is_absolute());
    let state =
        absolute("XDG_STATE_HOME").or_else(|| Some(absolute("HOME")?.join(".local/state")))?;
    Some(state.join("knee").join(NAME))
}

/// The JSON schema of `noise.json`.
pub fn noise_schema() -> serde_json::Value {
    schemars::schema_for!(NoiseFloors).to_value()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::{Command, Failure, Sample};
    use crate::plan::Case;
    use crate::record::{PointFailure, SampleLine};
    use knee_results::Mode;
    use serde_json::json;

    const SHORT: Conditions = Conditions { interval: 0.1, samples: 3, placement: Placement::Cores };

    fn noise(testcase: &str, conditions: Conditions, relative: f64) -> PointNoise {
        PointNoise {
            point: PointId { case: CaseId::new(testcase), mode: Mode::Threads, tasks: 2 },
            conditions,
            relative,
            rounds: 10,
            measured_at: "2026-11-21T09:00:00Z".to_owned(),
        }
    }

    fn floors(points: &[PointNoise]) -> NoiseFloors {
        let machine =
            Machine { hostname: "alpha".into(), kernel: "Linux 6.12.0".into(), cpu_model: None };
        NoiseFloors::new(machine, points.to_vec()).unwrap()
    }

    #[test]
    fn an_aa_run_of_one_testcase_keeps_the_floors_of_the_others() {
        let kept = floors(&[noise("mmap1", SHORT, 0.10), noise("brk1", SHORT, 0.20)]);
        let newer = floors(&[noise("brk1", SHORT, 0.02), noise("dup1", SHORT, 0.04)]);
        let all = kept.updated_by(newer);
        assert_eq!(
            all.points,
            [noise("mmap1", SHORT, 0.10), noise("brk1", SHORT, 0.02), noise("dup1", SHORT, 0.04)]
        );
        assert_eq!(all.typical, 0.04);
    }

    #[test]
    fn a_floor_of_other_rounds_or_another_placement_does_not_replace_one() {
        let longer = Conditions { interval: 0.2, ..SHORT };
        let scattered = Conditions { placement: Placement::Scatter, ..SHORT };
        let kept = floors(&[noise("brk1", SHORT, 0.20)]);
        let newer = [noise("brk1", longer, 0.02), noise("brk1", scattered, 0.04)];
        assert_eq!(kept.updated_by(floors(&newer)).points.len(), 3);
    }

    #[test]
    fn an_invalid_file_is_reported_and_an_old_one_is_ignored() {
        let good = serde_json::to_string(&floors(&[noise("brk1", SHORT, 0.2)])).unwrap();
        let parse = |text: &str| NoiseFloors::parse(text.as_bytes(), Path::new("noise.json"));
        let error = |text: &str| parse(text).unwrap_err().to_string();
        assert!(parse(&good).unwrap().is_some());
        assert!(parse(&good.replace("\"schema\":2", "\"schema\":1")).unwrap().is_none());
        let newer = error(&good.replace("\"schema\":2", "\"schema\":3"));
        assert!(
            newer.starts_with("noise.json has schema 3, but this version of knee reads 2"),
            "{newer}"
        );
        for (text, says) in [
            (&good[..good.len() / 2], "noise.json: line 1: the file is cut off"),
            ("{}", "noise.json: it has no schema"),
            (&good.replace("\"relative\":0.2", "\"relative\":-0.2"), "-0.2 is not a relative"),
        ] {
            assert!(error(text).contains(says), "{}", error(text));
            assert!(error(text).ends_with("knee run --aa"), "{}", error(text));
        }
    }

    #[test]
    fn only_round_length_and_placement_make_conditions_differ() {
        // 0.1 × 3 is not 0.3 in binary.
        let halves = Conditions { interval: 0.3, samples: 1, ..SHORT };
        assert!(SHORT.alike(&halves));
        assert!(!SHORT.alike(&Conditions { samples: 4, ..SHORT }));
        assert!(!SHORT.alike(&Conditions { placement: Placement::None, ..SHORT }));
    }

    #[test]
    fn a_typical_floor_stands_in_and_is_called_typical() {
        let floors = floors(&[noise("mmap1", SHORT, 0.10), noise("brk1", SHORT, 0.20)]);
        let [known, other] = ["mmap1", "dup1"].map(|name| noise(name, SHORT, 0.0).point);
        assert_eq!((floors.of(&known), floors.measured(&known)), (0.10, Some(0.10)));
        assert_eq!(floors.measured(&other), None);
        assert!((floors.of(&other) - 0.15).abs() < ROUNDING);
    }

    #[test]
    fn neither_a_failed_point_nor_disturbed_rounds_have_a_noise_floor() {
        let run = include_str!("../../../../fuzz/fixed/run.json");
        let mut run: RunRecord = serde_json::from_str(run).unwrap();
        run.cases = ["quiet", "failed", "busy"]
            .map(|name| Case::command(Command::timed(name, "/")))
            .to_vec();
        (run.request.modes, run.request.tasks) = (vec![Mode::Processes], vec![1]);
        let [quiet, failed, busy] = <[PointId; 3]>::try_from(run.points()).unwrap();
        let mut rounds = Rounds::default();
        for (point, clean) in [(&quiet, 4), (&failed, 4), (&busy, 3)] {
            for nr in 0..4 {
                let marks: &[&str] = if nr < clean { &[] } else { &["starved"] };
                let rates = [100.0 + f64::from(nr)];
                let sample =
                    json!({ "phase": "measure", "seconds": 1, "rates": rates, "marks": marks });
                let sample: Sample = serde_json::from_value(sample).unwrap();
                let mut round = RoundSummary::default();
                round.add(&SampleLine::new(point, nr, 0, sample, 1).unwrap());
                rounds.insert(point, nr, round);
            }
        }
        run.failures = vec![PointFailure {
            point: failed,
            round: 4,
            failure: Failure::runner("the server exited"),
        }];
        let floors = NoiseFloors::of_run(&run, &rounds).unwrap();
        let points: Vec<&PointId> = floors.points.iter().map(|noise| &noise.point).collect();
        assert_eq!(points, [&quiet]);
    }

    #[test]
    fn too_few_rounds_have_no_noise_floor() {
        let rates = |n: u32| vec![1.0; n as usize];
        assert_eq!(noise_floor(&rates(AA_ROUNDS_AT_LEAST - 1)), None);
        assert!(noise_floor(&rates(AA_ROUNDS_AT_LEAST)).is_some());
    }

    #[test]
    fn the_committed_schema_matches_the_code() {
        use snapbox::{assert_data_eq, file};
        let text = format!("{:#}\n", noise_schema());
        assert_data_eq!(text, file!["../schemas/noise.schema.json"].raw());
    }
}
