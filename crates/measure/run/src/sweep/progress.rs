//! What has been measured so far, and what is still to be measured.

use knee_results::{CONFIDENCE, Order, PointId};
use knee_stats::Looks;

use super::enough::{is_decided, is_precise};
use crate::job::Source;
use crate::plan::partner;
use crate::record::{RoundSummary, Rounds, RunRecord};

/// Seconds that it takes to start and end a round, in addition to its samples.
const ROUND_OVERHEAD: f64 = 0.02;

/// How far a run is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// Rounds that have been measured.
    pub done: usize,
    /// Rounds of the whole run, if no further round has to be repeated.
    pub of: usize,
    /// Whether disturbed rounds are being measured again.
    pub repeats: bool,
    /// Seconds until the end; `None` if unknown.
    pub left: Option<f64>,
}

/// The rounds of all points.
pub(super) struct Progress {
    run: RunRecord,
    points: Vec<PointId>,
    rounds: Rounds,
    /// Points that are not measured further, because they failed.
    closed: Vec<bool>,
    looks: Option<Looks>,
}

impl Progress {
    /// A run of which the rounds `finished` have been measured.
    pub(super) fn new(run: &RunRecord, finished: Rounds) -> Self {
        let points = run.points();
        Self {
            run: run.clone(),
            closed: vec![false; points.len()],
            points,
            rounds: finished,
            looks: run.looks(),
        }
    }

    pub(super) fn points(&self) -> &[PointId] {
        &self.points
    }

    /// How many rounds of a point have been measured, disturbed or not.
    pub(super) fn measured(&self, nr: usize) -> u32 {
        self.of(nr).count() as u32
    }

    pub(super) fn is_closed(&self, nr: usize) -> bool {
        self.closed[nr]
    }

    /// Whether a point has its rounds, so that further ones only replace some of them, and needs none of
    /// these for a result.
    pub(super) fn has_result(&self, nr: usize) -> bool {
        self.measured(nr) >= self.run.request.rounds && self.clean(nr) > 0
    }

    /// The point is not measured further. One side of a pair cannot be compared alone.
    pub(super) fn close(&mut self, nr: usize) {
        self.closed[nr] = true;
        if self.run.request.order == Order::InTurns {
            self.closed[partner(nr, self.points.len())] = true;
        }
    }

    /// Adds a round of a point.
    pub(super) fn add(&mut self, nr: usize, round: u32, summary: RoundSummary) {
        self.rounds.insert(&self.points[nr], round, summary);
    }

    /// All points have had their turn in a round.
    pub(super) fn end_of_round(&mut self) {
        self.rounds.mark_slow(&self.run);
    }

    /// The points that need more rounds.
    pub(super) fn open(&self) -> Vec<usize> {
        let is_patient = self.spent() < self.run.request.patience * self.planned();
        (0..self.points.len()).filter(|&nr| self.is_open(nr, is_patient)).collect()
    }

    fn is_open(&self, nr: usize, is_patient: bool) -> bool {
        let request = &self.run.request;
        if self.closed[nr] {
            return false;
        }
        let is_short = |rounds: usize| rounds < request.rounds as usize;
        let measured = self.of(nr).count();
        // A point that never counts must not use up the patience of the others.
        let may_repeat =
            is_patient && (measured as f64) < request.patience * f64::from(request.rounds);
        if is_short(measured) || (may_repeat && is_short(self.clean(nr))) {
            return true;
        }
        self.lacks_answer(nr) && self.seconds(nr) < request.max_time
    }

    /// Whether a point has its rounds, but not yet the precision or the decision that the run is
    /// for.
    fn lacks_answer(&self, nr: usize) -> bool {
        let request = &self.run.request;
        let Some(looks) = &self.looks else { return false };
        match (request.until_decided, request.precision) {
            (Some(asked), _) => !is_decided(&self.clean_pairs(nr), asked, looks),
            (None, Some(precision)) => {
                let rates: Vec<f64> = self.of(nr).filter_map(RoundSummary::clean_rate).collect();
                !is_precise(&rates, precision, CONFIDENCE, looks)
            }
            (None, None) => false,
        }
    }

    /// The seconds of measuring that a point has had; of its slower side in interleaved runs, so
    /// that both sides stop together.
    fn seconds(&self, nr: usize) -> f64 {
        let seconds = |nr| self.of(nr).map(RoundSummary::seconds).sum::<f64>();
        match self.run.request.order {
            Order::AsGiven | Order::Shuffled => seconds(nr),
            Order::InTurns => seconds(nr).max(seconds(partner(nr, self.points.len()))),
        }
    }

    /// How many rounds of a point count. In interleaved runs, both sides of a round must be clean.
    fn clean(&self, nr: usize) -> usize {
        match self.run.request.order {
            Order::AsGiven | Order::Shuffled => {
                self.of(nr).filter(|round| round.clean_rate().is_some()).count()
            }
            Order::InTurns => self.clean_pairs(nr).len(),
        }
    }

    /// The rates before and after of the rounds of an interleaved run that are clean on both sides.
    fn clean_pairs(&self, nr: usize) -> Vec<(f64, f64)> {
        let other = partner(nr, self.points.len());
        let [before, after] = [nr.min(other), nr.max(other)].map(|nr| &self.points[nr]);
        self.rounds.clean_pairs(before, after)
    }

    fn of(&self, nr: usize) -> impl Iterator<Item = &RoundSummary> + Clone {
        self.rounds.of(&self.points[nr])
    }

    /// The time of a planned run of the points that have not failed. The unit is a second, or for
    /// commands, whose duration is unknown, a round.
    fn planned(&self) -> f64 {
        let rounds = f64::from(self.run.request.rounds);
        self.going().map(|nr| rounds * self.cost(nr).unwrap_or(1.0)).sum()
    }

    /// The time of the rounds so far, in the same unit.
    fn spent(&self) -> f64 {
        let cost = |nr| f64::from(self.measured(nr)) * self.cost(nr).unwrap_or(1.0);
        self.going().map(cost).sum()
    }

    fn going(&self) -> impl Iterator<Item = usize> {
        (0..self.points.len()).filter(|&nr| !self.closed[nr])
    }

    /// The planned seconds of a round of a point; `None` for a command.
    fn cost(&self, nr: usize) -> Option<f64> {
        let request = &self.run.request;
        let case = self.run.case(&self.points[nr].case)?;
        if let Source::Command { .. } = case.source {
            return None;
        }
        let interval = request.interval.max(case.min_interval);
        Some(request.warmup + interval * request.samples as f64 + ROUND_OVERHEAD)
    }

    /// How far the run is in round number `round`, in which `left_in_round` points still have to be
    /// measured.
    pub(super) fn estimate(&self, round: u32, left_in_round: usize) -> Estimate {
        let asked = self.run.request.rounds;
        let later_rounds = asked.saturating_sub(round + 1) as usize;
        let done: usize = (0..self.points.len()).map(|nr| self.of(nr).count()).sum();
        let seconds = |nr| {
            // The estimate for a command is the mean of the rounds so far.
            let mean = |rounds: u32| {
                self.of(nr).map(RoundSummary::seconds).sum::<f64>() / f64::from(rounds)
            };
            self.cost(nr).or_else(|| (self.measured(nr) > 0).then(|| mean(self.measured(nr))))
        };
        let share = left_in_round as f64 / self.points.len().max(1) as f64;
        Estimate {
            done,
            of: done + left_in_round + self.going().count() * later_rounds,
            repeats: round >= asked && self.looks.is_none(),
            left: self
                .going()
                .map(seconds)
                .sum::<Option<f64>>()
                .map(|all| all * (later_rounds as f64 + share)),
        }
    }
}
