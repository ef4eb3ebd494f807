//! What has been measured so far, and what is still to be measured.

use knee_results::{CONFIDENCE, LatencyRequest, Order, PointId, Request};
use knee_stats::Looks;

use super::enough::{is_decided, is_precise};
use crate::plan::partner;
use crate::record::{RoundSummary, Rounds, RunRecord};

/// Seconds that it takes to start and end a round, in addition to its samples.
const ROUND_OVERHEAD: f64 = 0.02;

/// How far a run is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// Rounds that have been measured.
    pub done: usize,
    /// Rounds of the whole run, if no further round is disturbed.
    pub of: usize,
    /// Rounds of the whole run if all further rounds are disturbed; `None` if none has been disturbed so
    /// far, or if it is unknown.
    pub at_most: Option<usize>,
    /// Whether disturbed rounds are being measured again.
    pub repeats: bool,
    /// Seconds until the end; `None` if unknown.
    pub left: Option<f64>,
}

/// The rounds of all points.
pub(super) struct Progress {
    request: Request,
    points: Vec<PointId>,
    /// The planned seconds of a round of each point; `None` for a command and for a server.
    costs: Vec<Option<f64>>,
    /// The planned seconds of a round of each point that its measured seconds lack.
    beside: Vec<f64>,
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
            request: run.request.clone(),
            costs: points.iter().map(|point| cost(run, point)).collect(),
            beside: points.iter().map(|point| beside(run, point)).collect(),
            closed: vec![false; points.len()],
            points,
            rounds: finished,
            looks: run.looks(),
        }
    }

    pub(super) fn points(&self) -> &[PointId] {
        &self.points
    }

    pub(super) fn rounds(&self) -> &Rounds {
        &self.rounds
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
        self.measured(nr) >= self.request.rounds && self.clean(nr) > 0
    }

    /// The point is not measured further. One side of a pair cannot be compared alone.
    pub(super) fn close(&mut self, nr: usize) {
        self.closed[nr] = true;
        if self.request.order == Order::InTurns {
            self.closed[partner(nr, self.points.len())] = true;
        }
    }

    /// Adds a round of a point.
    pub(super) fn add(&mut self, nr: usize, round: u32, summary: RoundSummary) {
        self.rounds.insert(&self.points[nr], round, summary);
    }

    /// All points of `run` have had their turn in a round.
    pub(super) fn end_of_round(&mut self, run: &RunRecord) {
        self.rounds.mark_slow(run);
    }

    /// The points that need more rounds.
    pub(super) fn open(&self) -> Vec<usize> {
        let is_patient = self.is_patient();
        (0..self.points.len()).filter(|&nr| self.is_open(nr, is_patient)).collect()
    }

    /// Whether there is time left for repeated rounds.
    fn is_patient(&self) -> bool {
        self.spent() < self.request.patience * self.planned()
    }

    fn is_open(&self, nr: usize, is_patient: bool) -> bool {
        let request = &self.request;
        if self.closed[nr] {
            return false;
        }
        let is_short = |rounds: usize| rounds < request.rounds as usize;
        let measured = self.of(nr).count();
        // A point that never counts must not use up the patience of the others.
        let may_repeat = is_patient && measured < self.most();
        if is_short(measured) || (may_repeat && is_short(self.clean(nr))) {
            return true;
        }
        self.lacks_answer(nr) && self.seconds(nr) < request.max_time
    }

    /// The most rounds of a point, if all are disturbed.
    fn most(&self) -> usize {
        (self.request.patience * f64::from(self.request.rounds)).ceil() as usize
    }

    /// Whether a point has its rounds, but not yet the precision or the decision that the run is
    /// for.
    fn lacks_answer(&self, nr: usize) -> bool {
        let request = &self.request;
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
        match self.request.order {
            Order::AsGiven | Order::Shuffled => seconds(nr),
            Order::InTurns => seconds(nr).max(seconds(partner(nr, self.points.len()))),
        }
    }

    /// How many rounds of a point count. In interleaved runs, both sides of a round must be clean.
    fn clean(&self, nr: usize) -> usize {
        match self.request.order {
            Order::AsGiven | Order::Shuffled => {
                self.of(nr).filter(|round| round.clean_rate().is_some()).count()
            }
            Order::InTurns => self.clean_pairs(nr).len(),
        }
    }

    /// How many measured rounds of a point do not count.
    fn lost(&self, nr: usize) -> usize {
        let [before, after] = self.sides(nr);
        let measured = match self.request.order {
            Order::AsGiven | Order::Shuffled => self.of(nr).count(),
            Order::InTurns => self.rounds.pairs(before, after).count(),
        };
        measured - self.clean(nr)
    }

    /// The rates before and after of the rounds of an interleaved run that are clean on both sides.
    fn clean_pairs(&self, nr: usize) -> Vec<(f64, f64)> {
        let [before, after] = self.sides(nr);
        self.rounds.clean_pairs(before, after)
    }

    /// Both sides of a point of an interleaved run.
    fn sides(&self, nr: usize) -> [&PointId; 2] {
        let other = partner(nr, self.points.len());
        [nr.min(other), nr.max(other)].map(|nr| &self.points[nr])
    }

    fn of(&self, nr: usize) -> impl Iterator<Item = &RoundSummary> + Clone {
        self.rounds.of(&self.points[nr])
    }

    /// The time of a planned run of the points that have not failed. The unit is a second, or for
    /// commands, whose duration is unknown, a round.
    fn planned(&self) -> f64 {
        let rounds = f64::from(self.request.rounds);
        self.going().map(|nr| rounds * self.costs[nr].unwrap_or(1.0)).sum()
    }

    /// The time of the rounds so far, in the same unit.
    fn spent(&self) -> f64 {
        let cost = |nr| f64::from(self.measured(nr)) * self.costs[nr].unwrap_or(1.0);
        self.going().map(cost).sum()
    }

    fn going(&self) -> impl Iterator<Item = usize> {
        (0..self.points.len()).filter(|&nr| !self.closed[nr])
    }

    /// How many rounds of a point are still to be measured, if none of them is disturbed.
    fn to_come(&self, nr: usize, is_patient: bool) -> usize {
        let (asked, measured) = (self.request.rounds as usize, self.of(nr).count());
        let most = if is_patient { self.most() } else { asked };
        // In an interleaved run, the other side of a round may still be missing.
        let good = measured - self.lost(nr);
        asked.saturating_sub(good).min(most.saturating_sub(measured))
    }

    /// How far the run is in round number `round`, in which `left_in_round` points still have to be
    /// measured.
    pub(super) fn estimate(&self, round: u32, left_in_round: usize) -> Estimate {
        let done: usize = (0..self.points.len()).map(|nr| self.of(nr).count()).sum();
        let is_patient = self.is_patient();
        let to_come: usize = self.going().map(|nr| self.to_come(nr, is_patient)).sum();
        let most = |nr| self.most().saturating_sub(self.of(nr).count());
        let of = done + to_come.max(left_in_round);
        let at_most = done + self.going().map(most).sum::<usize>();
        let has_limit = self.looks.is_none() && self.going().any(|nr| self.lost(nr) > 0);
        let seconds = |nr| {
            // The estimate for a command or a server uses the mean of the rounds so far.
            let mean = |rounds: u32| {
                let measured: f64 = self.of(nr).map(RoundSummary::seconds).sum();
                measured / f64::from(rounds) + self.beside[nr]
            };
            self.costs[nr].or_else(|| (self.measured(nr) > 0).then(|| mean(self.measured(nr))))
        };
        let left = self.going().map(|nr| Some(seconds(nr)? * self.to_come(nr, is_patient) as f64));
        Estimate {
            done,
            of,
            at_most: Some(at_most).filter(|&at_most| has_limit && at_most > of),
            repeats: round >= self.request.rounds && self.looks.is_none(),
            // It is unknown how many looks follow the first one.
            left: left.sum::<Option<f64>>().filter(|_| to_come > 0),
        }
    }
}

/// The planned seconds in which a round of a server warms up, and in which it measures latency.
fn beside(run: &RunRecord, point: &PointId) -> f64 {
    let request = &run.request;
    match (run.case(&point.case), request.latency) {
        (Some(case), Some(LatencyRequest::Requests { .. })) if case.is_server() => {
            2.0 * request.warmup + request.interval
        }
        (Some(case), _) if case.is_server() => request.warmup,
        _ => 0.0,
    }
}

/// The planned seconds of a round of a point; `None` for a command and for a server.
fn cost(run: &RunRecord, point: &PointId) -> Option<f64> {
    let request = &run.request;
    let case = run.case(&point.case)?;
    if case.is_foreign_process() {
        return None;
    }
    let interval = request.interval.max(case.min_interval);
    Some(request.warmup + interval * request.samples as f64 + ROUND_OVERHEAD)
}
