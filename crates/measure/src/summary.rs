//! From samples to what a person wants to know: a throughput per point, a curve per testcase and
//! mode, a knee.

use std::collections::BTreeMap;

use knee_stats::{Curve, MedianInterval, median, median_interval};
use serde::Serialize;

use crate::job::{CpuShares, Mark, Phase};
use crate::plan::Point;
use crate::record::{Record, SampleLine};
use crate::testcase::Mode;

/// Confidence of all intervals.
pub const CONFIDENCE: f64 = 0.95;

/// What was measured of one point. Rates are per second, in the unit of the testcase.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PointSummary {
    /// The point.
    #[serde(flatten)]
    pub point: Point,
    /// Median over the rounds.
    pub rate: f64,
    /// Lower end of the interval of the median.
    pub low: f64,
    /// Upper end of the interval of the median.
    pub high: f64,
    /// Confidence of that interval: 0.95, or what so few rounds can give.
    pub confidence: f64,
    /// The rate of each round.
    pub rounds: Vec<f64>,
    /// Slowest task of any sample.
    pub min: f64,
    /// Fastest task of any sample.
    pub max: f64,
    /// Median over the samples of Jain's fairness index.
    pub fairness: f64,
    /// Where the CPUs of the point were, averaged over the samples.
    pub cpu: Option<CpuShares>,
    /// Number of samples that count.
    pub samples: usize,
    /// How many of them are marked.
    pub marked: usize,
    /// How many of them carry each mark.
    pub marks: BTreeMap<Mark, usize>,
}

impl PointSummary {
    /// Half the width of the interval as a share of the median.
    pub fn relative_half_width(&self) -> f64 {
        MedianInterval {
            median: self.rate,
            low: self.low,
            high: self.high,
            confidence: self.confidence,
            n: self.rounds.len(),
        }
        .relative_half_width()
    }

    fn of(point: Point, by_round: &BTreeMap<u32, Vec<&SampleLine>>) -> Option<Self> {
        let is_measured = |line: &&SampleLine| line.phase == Phase::Measure;
        let measured: Vec<&SampleLine> =
            by_round.values().flatten().copied().filter(is_measured).collect();
        let rounds: Vec<f64> = by_round
            .values()
            .filter_map(|round| clean_rate(round.iter().copied().filter(is_measured)))
            .collect();
        let interval = median_interval(&rounds, CONFIDENCE)?;
        let mut marks = BTreeMap::new();
        for mark in measured.iter().flat_map(|line| &line.marks) {
            *marks.entry(*mark).or_insert(0) += 1;
        }
        let fairness: Vec<f64> = measured.iter().map(|line| line.fairness).collect();
        Some(Self {
            point,
            rate: interval.median,
            low: interval.low,
            high: interval.high,
            confidence: interval.confidence,
            rounds,
            min: measured.iter().map(|line| line.min).fold(f64::INFINITY, f64::min),
            max: measured.iter().map(|line| line.max).fold(0.0, f64::max),
            fairness: median(&fairness)?,
            cpu: average(measured.iter().filter_map(|line| line.cpu)),
            samples: measured.len(),
            marked: measured.iter().filter(|line| !line.marks.is_empty()).count(),
            marks,
        })
    }
}

/// The rate of one round: steps over time in its unmarked samples, or in all where every one is
/// marked. `None` for a round without samples.
pub fn clean_rate<'a>(lines: impl Iterator<Item = &'a SampleLine> + Clone) -> Option<f64> {
    let over = |lines: &mut dyn Iterator<Item = &'a SampleLine>| {
        let (done, seconds) = lines.fold((0.0, 0.0), |(done, seconds), line| {
            (done + line.total * line.seconds, seconds + line.seconds)
        });
        (seconds > 0.0).then(|| done / seconds)
    };
    over(&mut lines.clone().filter(|line| line.marks.is_empty()))
        .or_else(|| over(&mut lines.clone()))
}

fn average(shares: impl Iterator<Item = CpuShares>) -> Option<CpuShares> {
    let shares: Vec<CpuShares> = shares.collect();
    let mean = |of: fn(&CpuShares) -> f64| shares.iter().map(of).sum::<f64>() / shares.len() as f64;
    (!shares.is_empty()).then(|| CpuShares {
        user: mean(|s| s.user),
        system: mean(|s| s.system),
        idle: mean(|s| s.idle),
        steal: mean(|s| s.steal),
        machine_idle: mean(|s| s.machine_idle),
    })
}

/// One testcase in one mode.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CurveSummary {
    /// Name of the testcase.
    pub testcase: String,
    /// Processes or threads.
    pub mode: Mode,
    /// Its points, fewest tasks first.
    pub points: Vec<CurveEntry>,
    /// The knee: the first number of tasks whose efficiency is below the threshold.
    pub knee: Option<u32>,
    /// The number of tasks with the greatest throughput.
    pub peak: u32,
}

/// A point as part of a curve.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CurveEntry {
    /// Throughput over that of one task.
    pub speedup: f64,
    /// Speed-up over the number of tasks.
    pub efficiency: f64,
    /// The measurement.
    #[serde(flatten)]
    pub point: PointSummary,
}

/// Summarises a record: curves in the order in which they were asked for. `knee` is the threshold
/// of efficiency, 0 to 1.
pub fn summarise(record: &Record, knee: f64) -> Vec<CurveSummary> {
    let finished = record.finished_rounds();
    let mut curves: Vec<(String, Mode, Vec<PointSummary>)> = Vec::new();
    for point in record.run.points() {
        let Some(summary) =
            finished.get(&point).and_then(|rounds| PointSummary::of(point.clone(), rounds))
        else {
            continue;
        };
        match curves.last_mut() {
            Some((name, mode, points)) if *name == point.testcase && *mode == point.mode => {
                points.push(summary);
            }
            _ => curves.push((point.testcase, point.mode, vec![summary])),
        }
    }
    curves.into_iter().map(|(name, mode, points)| curve(name, mode, points, knee)).collect()
}

fn curve(testcase: String, mode: Mode, mut points: Vec<PointSummary>, knee: f64) -> CurveSummary {
    points.sort_by_key(|p| p.point.tasks);
    let pairs: Vec<(u32, f64)> = points.iter().map(|p| (p.point.tasks, p.rate)).collect();
    let curve = Curve::new(&pairs);
    let entries = points
        .into_iter()
        .zip(curve.points())
        .map(|(point, at)| CurveEntry { speedup: at.speedup, efficiency: at.efficiency, point })
        .collect();
    CurveSummary {
        testcase,
        mode,
        points: entries,
        knee: curve.knee(knee),
        peak: curve.peak().map_or(0, |p| p.tasks),
    }
}
