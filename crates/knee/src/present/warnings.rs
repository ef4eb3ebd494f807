//! Warnings to read before trusting a table. Each one says what to do, if anything can be done.

mod noise;
mod seats;

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use knee_host::number::{plural, spread};
use knee_results::{CONFIDENCE, Curve, Mark, Mode, Order, Point, PointId};
use knee_run::record::{Record, RunEnd, RunRecord};

use self::noise::{Doubts, doubts};
use self::seats::{Limit, shared_beyond, without_spare_cpu};
use super::enumeration::NAMED;
use super::view::View;

/// Five rounds reach 93.75%, which the table header shows; fewer rounds cause a warning.
const LEAST_CONFIDENCE: f64 = 0.93;
/// The computed confidence of six rounds is slightly below 95%.
const ROUNDING: f64 = 1e-9;

/// One warning.
pub(crate) enum Warning {
    /// The run is incomplete.
    Incomplete { end: Option<RunEnd>, dir: PathBuf },
    /// The run lacks points in a mode that their testcases do not support. Resuming the run cannot
    /// add them.
    OtherMode { points: usize },
    /// Too few rounds for the required confidence.
    FewRounds { rounds: usize, asked: usize, confidence: f64 },
    /// Some points did not reach `--precision`.
    Imprecise { asked: f64, points: usize, of: usize, worst: String },
    /// All samples of some points are marked; if `all` is set, all samples of the run.
    Unbelievable { points: Vec<String>, all: bool },
    /// Some samples are marked.
    Marked { marked: u64, of: u64, marks: BTreeMap<Mark, u64> },
    /// No CPU is reserved for the measuring process.
    NoSpareCpu { from: Limit },
    /// Some curves have no point at one task, whether requested or not.
    NoSingleTask { curves: usize, of: usize, asked: bool },
    /// There were more tasks than CPUs.
    Oversubscribed { beyond: Limit },
    /// A cgroup grants less CPU time than the CPUs provide.
    Quota { cpus: f64 },
    /// Other work was running when the run began.
    Busy { threads: u32 },
    /// Knees that could be noise.
    KneeInNoise(Doubts),
    /// Points that could be a knee.
    KneeHiddenByNoise(Doubts),
    /// The noise floor is unknown.
    NoNoiseFloor,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Incomplete { end, dir } => {
                let how = match end {
                    Some(RunEnd::Interrupted) => "was interrupted",
                    Some(RunEnd::Failed) => "stopped because it could not write its record",
                    Some(RunEnd::Done) => "lacks the points that failed",
                    None => "was killed or is still running",
                };
                write!(f, "the run {how}; to continue it: knee run --resume {}", dir.display())
            }
            Self::OtherMode { points } => write!(
                f,
                "the run lacks {} of testcases that run only as threads; measure them in a run \
                 with -m threads",
                plural(*points, "point")
            ),
            Self::FewRounds { rounds: 1, asked: 1, .. } => {
                write!(f, "one round shows no spread; use six rounds for 95% confidence: -r 6")
            }
            Self::FewRounds { rounds, asked, confidence } if rounds < asked => write!(
                f,
                "knee can use only {rounds} of {asked} rounds at some points, which gives {:.1}% \
                 confidence; 95% requires six: reduce other load, or use more rounds",
                confidence * 100.0
            ),
            Self::FewRounds { rounds, confidence, .. } => write!(
                f,
                "{rounds} rounds give only {:.1}% confidence; use six rounds for 95%: -r 6",
                confidence * 100.0
            ),
            Self::Imprecise { asked, points, of, worst } => write!(
                f,
                "{points} of {of} points did not reach the requested ±{} at 95% confidence, at \
                 worst {worst}; use a longer --max-time, or reduce other load",
                spread(*asked)
            ),
            Self::Unbelievable { all: true, .. } => write!(
                f,
                "all samples of this run were disturbed, so do not trust it; reduce other load \
                 and run it again"
            ),
            Self::Unbelievable { points, .. } => {
                let named = points.iter().take(NAMED).cloned().collect::<Vec<_>>().join(", ");
                write!(f, "all samples of {named}")?;
                match points.len().saturating_sub(NAMED) {
                    0 => {}
                    more => write!(f, " and {more} more points")?,
                }
                write!(
                    f,
                    " were disturbed, so do not trust these points (marked !!); reduce other \
                     load, or use more rounds"
                )
            }
            Self::Marked { marked, of, marks } => {
                let list: Vec<String> =
                    marks.iter().map(|(mark, n)| format!("{n} {}", describe(*mark))).collect();
                let (were, are) = if *marked == 1 { ("was", "is") } else { ("were", "are") };
                write!(
                    f,
                    "{marked} of {of} samples {were} disturbed ({}) and {are} left out where \
                     possible (rows marked !); reduce other load, or use more rounds",
                    list.join(", ")
                )
            }
            Self::NoSpareCpu { from } => write!(
                f,
                "with {from} or more, no CPU is free for the measuring process, so it interrupts a \
                 task for a few microseconds per sample"
            ),
            Self::NoSingleTask { curves, of, asked } => {
                if curves == of {
                    f.write_str("no curve has a point at 1 task")?;
                } else {
                    let have = if *curves == 1 { "has" } else { "have" };
                    write!(f, "{curves} of {of} curves {have} no point at 1 task")?;
                }
                f.write_str(", so there is no speed-up, efficiency or knee")?;
                f.write_str(if *asked { "" } else { "; add 1 to -t" })
            }
            Self::Oversubscribed { beyond } => write!(
                f,
                "points with more than {beyond} share CPUs, so their efficiency does not show how \
                 more cores would scale"
            ),
            Self::Quota { cpus } => write!(
                f,
                "a cgroup limits CPU time to {cpus:.1} CPUs, so curves flatten there whatever the \
                 kernel does; raise cpu.max to see beyond"
            ),
            Self::Busy { threads } => write!(
                f,
                "other work was waiting for CPUs when the run began ({threads} runnable); stop it \
                 and run again"
            ),
            Self::KneeInNoise(doubts) => write!(f, "possibly noise, not a knee: {doubts}"),
            Self::KneeHiddenByNoise(doubts) => {
                write!(f, "possibly a knee, hidden by noise: {doubts}")
            }
            Self::NoNoiseFloor => {
                write!(f, "the noise floor of this machine is unknown: knee run --aa measures it")
            }
        }
    }
}

fn describe(mark: Mark) -> &'static str {
    match mark {
        Mark::Starved => "preempted by other work",
        Mark::Steal => "with steal time",
        Mark::Late => "taken late",
        Mark::Clock => "with a clock jump",
        Mark::Stalled => "with a stalled task",
    }
}

/// The warnings about `record`, most important first.
pub(crate) fn warnings(record: &Record, curves: &[Curve], view: &View<'_>) -> Vec<Warning> {
    let run = &record.run;
    let points: Vec<(&Curve, &Point)> =
        curves.iter().flat_map(|c| c.points().iter().map(move |point| (c, point))).collect();
    let mut warnings = Vec::new();
    let hopeless =
        run.failures.iter().filter(|failure| has_other_mode(run, &failure.point)).count();
    if run.end == Some(RunEnd::Done) && hopeless > 0 && hopeless == run.failures.len() {
        warnings.push(Warning::OtherMode { points: hopeless });
    } else if !run.complete {
        warnings.push(Warning::Incomplete { end: run.end, dir: record.dir.clone() });
    }
    if let Some(cpus) = run.environment.cgroup_cpu_quota {
        warnings.push(Warning::Quota { cpus });
    }
    warnings.extend(unbelievable(&points));
    if let Some((_, point)) = points.iter().min_by_key(|(_, point)| point.rounds.len())
        && point.confidence < LEAST_CONFIDENCE
    {
        let (rounds, confidence) = (point.rounds.len(), point.confidence);
        let asked = run.request.rounds as usize;
        warnings.push(Warning::FewRounds { rounds, asked, confidence });
    }
    warnings.extend(run.request.precision.and_then(|asked| imprecise(&points, asked)));
    if let Some(threads @ 1..) = run.environment.others_running {
        warnings.push(Warning::Busy { threads });
    }
    warnings.extend(marked(&points));
    let (of, asked) = (curves.len(), run.request.tasks.contains(&1));
    match curves.iter().filter(|curve| curve.base().is_none()).count() {
        0 => {}
        curves => warnings.push(Warning::NoSingleTask { curves, of, asked }),
    }
    warnings.extend(shared_beyond(run, curves).map(|beyond| Warning::Oversubscribed { beyond }));
    warnings.extend(without_spare_cpu(run, curves).map(|from| Warning::NoSpareCpu { from }));
    match view.floors {
        // What a floor is for cancels where sides are measured in turns.
        None if run.request.order == Order::InTurns => {}
        None => warnings.push(Warning::NoNoiseFloor),
        Some(floors) => {
            let (knees, hidden) = doubts(curves, view.knee, floors);
            warnings.extend(knees.map(Warning::KneeInNoise));
            warnings.extend(hidden.map(Warning::KneeHiddenByNoise));
        }
    }
    warnings
}

/// Whether the testcase of a point supports only the other mode.
fn has_other_mode(run: &RunRecord, point: &PointId) -> bool {
    let modes = run.case(&point.case).map(|case| case.modes(&[Mode::Processes, Mode::Threads]));
    modes.is_some_and(|modes| !modes.contains(&point.mode))
}

fn unbelievable(points: &[(&Curve, &Point)]) -> Option<Warning> {
    let disturbed: Vec<String> =
        points.iter().filter(|(_, p)| p.is_disturbed()).map(|(c, p)| name(c, p)).collect();
    let all = disturbed.len() == points.len();
    (!disturbed.is_empty()).then_some(Warning::Unbelievable { points: disturbed, all })
}

fn marked(points: &[(&Curve, &Point)]) -> Option<Warning> {
    let points = || points.iter().map(|(_, point)| point);
    let marked = points().map(|point| point.marked).sum();
    let of = points().map(|point| point.samples).sum();
    let mut marks = BTreeMap::new();
    for (mark, n) in points().flat_map(|point| &point.marks) {
        *marks.entry(*mark).or_insert(0) += n;
    }
    // Where there are no others, none is left out.
    (0 < marked && marked < of).then_some(Warning::Marked { marked, of, marks })
}

fn imprecise(points: &[(&Curve, &Point)], asked: f64) -> Option<Warning> {
    let too_wide =
        |p: &Point| p.confidence + ROUNDING < CONFIDENCE || p.relative_half_width() > asked;
    let wide: Vec<_> = points.iter().filter(|(_, p)| too_wide(p)).collect();
    let worst = wide
        .iter()
        .max_by(|(_, a), (_, b)| a.relative_half_width().total_cmp(&b.relative_half_width()))
        .map(|(c, p)| format!("{} (±{})", name(c, p), spread(p.relative_half_width())))?;
    Some(Warning::Imprecise { asked, points: wide.len(), of: points.len(), worst })
}

fn name(curve: &Curve, point: &Point) -> String {
    curve.id(point.tasks).to_string()
}
