//! What a reader has to know before believing a table; each warning ends in what to do.

use std::collections::BTreeMap;
use std::fmt;

use knee_measure::job::Mark;
use knee_measure::noise::NoiseFloors;
use knee_measure::record::{PointFailure, RunEnd, RunRecord};
use knee_measure::summary::CurveSummary;

use super::number::{percent, spread};

/// Five rounds reach 93.75 %, which the head of the table says; fewer need a word.
const LEAST_CONFIDENCE: f64 = 0.93;

/// One line of caution.
pub(crate) enum Warning {
    /// The run is not whole.
    Incomplete { end: Option<RunEnd> },
    /// Too few rounds for the confidence that intervals should have.
    FewRounds { rounds: usize, confidence: f64 },
    /// Some samples are marked.
    Marked { marked: u64, of: u64, marks: BTreeMap<Mark, u64> },
    /// The measuring process has no CPU of its own.
    NoSpareCpu { from: u32 },
    /// There is no measurement at one task to compare with.
    NoSingleTask { fewest: u32 },
    /// More tasks than CPUs were asked for.
    Oversubscribed { cpus: usize },
    /// A cgroup grants less CPU time than there are CPUs.
    Quota { cpus: f64 },
    /// Others were at work when the run began.
    Busy { threads: u32 },
    /// A knee that could be noise.
    KneeInNoise { curve: String, efficiency: f64, floor: f64 },
    /// Nobody knows how much of all this is noise.
    NoNoiseFloor,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Incomplete { end } => {
                let how = match end {
                    Some(RunEnd::Interrupted) => "was interrupted",
                    Some(RunEnd::Failed) => "could not write its record",
                    Some(RunEnd::Done) => "lacks the points that failed",
                    None => "was killed or is still going on",
                };
                write!(f, "the run {how}; continue it with: knee run --resume DIR")
            }
            Self::FewRounds { rounds: 1, .. } => {
                write!(f, "one round says nothing about its spread; six give 95 %: -r 6")
            }
            Self::FewRounds { rounds, confidence } => write!(
                f,
                "{rounds} rounds give only {:.0} % confidence; six give 95 %: -r 6",
                confidence * 100.0
            ),
            Self::Marked { marked, of, marks } => {
                let list: Vec<String> =
                    marks.iter().map(|(mark, n)| format!("{n} {}", describe(*mark))).collect();
                write!(
                    f,
                    "{marked} of {of} samples were disturbed ({}) and are left out where their \
                     round has others; quieten the machine, or use more rounds",
                    list.join(", ")
                )
            }
            Self::NoSpareCpu { from } => write!(
                f,
                "from {from} tasks on no CPU is left for the measuring process: it interrupts a \
                 task for some microseconds per sample; leave one free with -t"
            ),
            Self::NoSingleTask { fewest } => write!(
                f,
                "speed-up and efficiency are relative to {fewest} tasks; add 1 to -t to see them \
                 whole"
            ),
            Self::Oversubscribed { cpus } => write!(
                f,
                "points with more than {cpus} tasks share CPUs: their efficiency is not that of \
                 more cores"
            ),
            Self::Quota { cpus } => write!(
                f,
                "a cgroup grants {cpus:.1} CPUs of time: curves flatten there, whatever the \
                 kernel does; lift cpu.max to see further"
            ),
            Self::Busy { threads } => write!(
                f,
                "other work wanted a CPU when the run began ({threads} runnable): stop it and run \
                 this again"
            ),
            Self::KneeInNoise { curve, efficiency, floor } => write!(
                f,
                "the knee of {curve} ({} efficient) is within this machine's noise floor of {}: \
                 use more rounds before believing it",
                percent(*efficiency),
                spread(*floor)
            ),
            Self::NoNoiseFloor => {
                write!(f, "the noise floor of this machine is unknown: knee run --aa measures it")
            }
        }
    }
}

fn describe(mark: Mark) -> &'static str {
    match mark {
        Mark::Starved => "starved by other work",
        Mark::Steal => "robbed by the hypervisor",
        Mark::Late => "taken late",
        Mark::Clock => "with a clock jump",
        Mark::Stalled => "with a task that stood still",
    }
}

/// What to know about `run`, most important first.
pub(crate) fn warnings(
    run: &RunRecord,
    curves: &[CurveSummary],
    knee: f64,
    floors: Option<&NoiseFloors>,
) -> Vec<Warning> {
    let mut warnings = Vec::new();
    if !run.complete {
        warnings.push(Warning::Incomplete { end: run.end });
    }
    let points = || curves.iter().flat_map(|curve| &curve.points).map(|entry| &entry.point);
    let fewest = points().min_by_key(|point| point.rounds.len());
    if let Some(point) = fewest
        && point.confidence < LEAST_CONFIDENCE
    {
        let (rounds, confidence) = (point.rounds.len(), point.confidence);
        warnings.push(Warning::FewRounds { rounds, confidence });
    }
    if let Some(threads @ 1..) = run.environment.others_running {
        warnings.push(Warning::Busy { threads });
    }
    let measured: u64 = points().map(|point| point.samples).sum();
    let marked: u64 = points().map(|point| point.marked).sum();
    if marked > 0 {
        let mut marks = BTreeMap::new();
        for (mark, n) in points().flat_map(|point| &point.marks) {
            *marks.entry(*mark).or_insert(0) += n;
        }
        warnings.push(Warning::Marked { marked, of: measured, marks });
    }
    if let Some(cpus) = run.environment.cgroup_cpu_quota {
        warnings.push(Warning::Quota { cpus });
    }
    let fewest = run.request.tasks.iter().copied().min().unwrap_or(1);
    if fewest > 1 {
        warnings.push(Warning::NoSingleTask { fewest });
    }
    let cpus = run.request.cpus.len();
    let most = run.request.tasks.iter().copied().max().unwrap_or(0);
    if most as usize > cpus {
        warnings.push(Warning::Oversubscribed { cpus });
    } else if most as usize == cpus {
        warnings.push(Warning::NoSpareCpu { from: most });
    }
    match floors {
        None => warnings.push(Warning::NoNoiseFloor),
        Some(floors) => {
            for curve in curves {
                let at = curve.points.iter().find(|e| Some(e.point.point.tasks) == curve.knee);
                let Some(entry) = at else { continue };
                let floor = floors.of(&entry.point.point);
                if (entry.efficiency / knee - 1.0).abs() < floor {
                    warnings.push(Warning::KneeInNoise {
                        curve: format!("{} {}", curve.testcase, curve.mode),
                        efficiency: entry.efficiency,
                        floor,
                    });
                }
            }
        }
    }
    warnings
}

/// One failed point, with what to do.
pub(crate) fn failure_line(failure: &PointFailure) -> String {
    let point = &failure.point;
    format!(
        "{} {} ×{}: {}; {}",
        point.testcase, point.mode, point.tasks, failure.failure.reason, failure.failure.remedy
    )
}

/// All failures, those of one testcase with one reason in one line.
pub(crate) fn failure_lines(failures: &[PointFailure]) -> Vec<String> {
    let mut groups: Vec<(&PointFailure, Vec<String>)> = Vec::new();
    for failure in failures {
        let at = format!("{} ×{}", failure.point.mode, failure.point.tasks);
        let same = |other: &PointFailure| {
            other.point.testcase == failure.point.testcase && other.failure == failure.failure
        };
        match groups.iter_mut().find(|(other, _)| same(other)) {
            Some((_, points)) => points.push(at),
            None => groups.push((failure, vec![at])),
        }
    }
    groups
        .into_iter()
        .map(|(f, points)| {
            let (name, points) = (&f.point.testcase, points.join(", "));
            format!("{name} ({points}): {}; {}", f.failure.reason, f.failure.remedy)
        })
        .collect()
}
