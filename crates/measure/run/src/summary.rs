//! From samples to what a person wants to know: a throughput per point, a curve per testcase and
//! mode, a knee.

use std::collections::BTreeMap;

use knee_stats::{Curve, MedianInterval, median, median_interval};
use serde::Serialize;

use crate::case_id::CaseId;
use crate::job::{CpuShares, Mark};
use crate::plan::Point;
use crate::record::{RoundSummary, Rounds, RunRecord, round_rates};
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
    /// Median over the rounds of Jain's fairness index.
    pub fairness: f64,
    /// Where the CPUs of the point were, averaged over the samples.
    pub cpu: Option<CpuShares>,
    /// Number of samples that count.
    pub samples: u64,
    /// How many of them are marked.
    pub marked: u64,
    /// How many of them carry each mark.
    pub marks: BTreeMap<Mark, u64>,
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

    fn of<'r>(
        point: Point,
        rounds: impl Iterator<Item = &'r RoundSummary> + Clone,
    ) -> Option<Self> {
        let rates = round_rates(rounds.clone());
        let interval = median_interval(&rates, CONFIDENCE)?;
        let mut marks = BTreeMap::new();
        for (mark, n) in rounds.clone().flat_map(|round| &round.marks) {
            *marks.entry(*mark).or_insert(0) += n;
        }
        let fairness: Vec<f64> = rounds.clone().filter_map(RoundSummary::fairness).collect();
        let cpu: Vec<CpuShares> = rounds.clone().filter_map(RoundSummary::cpu).collect();
        let n = cpu.len() as f64;
        Some(Self {
            point,
            rate: interval.median,
            low: interval.low,
            high: interval.high,
            confidence: interval.confidence,
            rounds: rates,
            min: rounds.clone().map(|round| round.min).fold(f64::INFINITY, f64::min),
            max: rounds.clone().map(|round| round.max).fold(0.0, f64::max),
            fairness: median(&fairness)?,
            cpu: cpu.into_iter().reduce(|sum, shares| sum + shares).map(|sum| sum / n),
            samples: rounds.clone().map(|round| round.samples).sum(),
            marked: rounds.map(|round| round.marked).sum(),
            marks,
        })
    }
}

/// One testcase in one mode.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CurveSummary {
    /// What was measured.
    #[serde(rename = "testcase")]
    pub case: CaseId,
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

/// Summarises the finished `rounds` of a run: curves in the order in which they were asked for.
/// `knee` is the threshold of efficiency, 0 to 1.
pub fn summarise(run: &RunRecord, rounds: &Rounds, knee: f64) -> Vec<CurveSummary> {
    let mut curves: Vec<(CaseId, Mode, Vec<PointSummary>)> = Vec::new();
    for point in run.points() {
        let Some(summary) = PointSummary::of(point.clone(), rounds.of(&point)) else { continue };
        match curves.last_mut() {
            Some((name, mode, points)) if *name == point.case && *mode == point.mode => {
                points.push(summary);
            }
            _ => curves.push((point.case, point.mode, vec![summary])),
        }
    }
    curves.into_iter().map(|(name, mode, points)| curve(name, mode, points, knee)).collect()
}

fn curve(case: CaseId, mode: Mode, mut points: Vec<PointSummary>, knee: f64) -> CurveSummary {
    points.sort_by_key(|p| p.point.tasks);
    let pairs: Vec<(u32, f64)> = points.iter().map(|p| (p.point.tasks, p.rate)).collect();
    let curve = Curve::new(&pairs);
    let entries = points
        .into_iter()
        .zip(curve.points())
        .map(|(point, at)| CurveEntry { speedup: at.speedup, efficiency: at.efficiency, point })
        .collect();
    CurveSummary {
        case,
        mode,
        points: entries,
        knee: curve.knee(knee),
        peak: curve.peak().map_or(0, |p| p.tasks),
    }
}
