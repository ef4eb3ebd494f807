//! Results of a run that measured two sides in interleaved rounds (`knee ab`).

use std::collections::BTreeMap;
use std::path::PathBuf;

use knee_results::{
    CaseId, CaseInfo, Compared, Key, Measured, Order, PointId, Results, Side, VariantPair,
};
use knee_stats::{CompareOptions, compare_pairs};

use super::results::{case_info, of_clean_rounds};
use super::round::is_disturbed;
use super::{Record, RecordError, RoundSummary, Rounds};
use crate::job::{Command, Source};
use crate::plan::{Case, partner};

/// Both sides of an interleaved run, and their comparison.
#[derive(Debug, Clone, PartialEq)]
pub struct InTurns {
    /// The baseline.
    pub before: Results,
    /// The candidate.
    pub after: Results,
    /// Their comparison, pair by pair.
    pub compared: Compared,
}

impl InTurns {
    /// Compares the finished rounds of `record`; `None` if the run is not interleaved.
    pub fn of(record: &Record, options: &CompareOptions) -> Result<Option<Self>, RecordError> {
        let run = &record.run;
        let points = run.points();
        let cases = (run.cases.iter().find(|case| case.id.side == Some(Side::Before)))
            .zip(run.cases.iter().find(|case| case.id.side == Some(Side::After)));
        let (Order::InTurns, Some((one, other))) = (run.request.order, cases) else {
            return Ok(None);
        };
        let finished = record.finished_rounds()?;
        let name = match (one.id.without_side(), other.id.without_side()) {
            (before, after) if before == after => before,
            (before, after) => VariantPair { before, after }.name(),
        };
        let (mut before, mut after) = (side(one, &name), side(other, &name));
        let mut pairs = BTreeMap::new();
        for (nr, point) in points.iter().enumerate().take(points.len() / 2) {
            let other_point = &points[partner(nr, points.len())];
            let Pairs { rates, measured, clean } = Pairs::of(&finished, point, other_point);
            let disturbed = is_disturbed(clean, measured, run.request.rounds);
            let key = key(&name, point, one);
            let failure =
                |point: &PointId| run.failures.iter().find(|failure| failure.point == *point);
            for (nr, (results, point, other, case)) in
                [(&mut before, point, other_point, one), (&mut after, other_point, point, other)]
                    .into_iter()
                    .enumerate()
            {
                let side: Vec<f64> = rates.iter().map(|&(b, a)| [b, a][nr]).collect();
                let gap = match (failure(point), failure(other)) {
                    (Some(failure), _) => Some(failure.failure.reason.clone()),
                    (None, Some(_)) => {
                        Some("not measured, because the other side failed".to_owned())
                    }
                    (None, None) => None,
                };
                let measured = Measured {
                    samples: finished.of(point).map(|round| round.samples).sum(),
                    marked: finished.of(point).map(RoundSummary::marked).sum(),
                    gap,
                    rounds: side,
                    measured,
                    disturbed,
                    oversubscribed: run.is_oversubscribed(case, point.tasks),
                    ..of_clean_rounds(finished.of(point))
                };
                results.points.insert(key.clone(), measured);
            }
            pairs.insert(key, rates);
        }
        before.origin = Some(run.origin());
        after.origin = Some(run.origin());
        let compare = |pairs: &[&Vec<(f64, f64)>]| compare_pairs(pairs, options);
        let compared = Compared {
            in_turns: true,
            ..Compared::assemble(&before, &after, pairs.iter().collect(), compare)
                .with_latencies(&before, &after, options)
        };
        Ok(Some(Self { before, after, compared }))
    }
}

fn side(case: &Case, name: &CaseId) -> Results {
    let source = match &case.source {
        Source::Command { command } => PathBuf::from(&command.line),
        Source::Plugin { plugin, .. } => plugin.clone(),
        Source::Server { .. } | Source::BuiltIn {} => {
            PathBuf::from(case.id.without_side().to_string())
        }
    };
    let mut results = Results::new(&source);
    // What the sides run is what the user compares.
    let info = CaseInfo { settings: BTreeMap::new(), ..case_info(case) };
    results.cases.insert(name.clone(), info);
    results
}

/// The key of a point. A command has no mode, and a task count only if its line contains
/// [`Command::TASKS`].
fn key(name: &CaseId, point: &PointId, case: &Case) -> Key {
    let command = match &case.source {
        Source::Command { command } => Some(command),
        _ => None,
    };
    let tasks = command.is_none_or(Command::takes_tasks);
    Key {
        case: name.clone(),
        mode: command.is_none().then_some(point.mode),
        tasks: tasks.then_some(point.tasks),
    }
}

/// The rounds that both sides of a point have finished.
struct Pairs {
    /// The rates before and after of the clean pairs; of all pairs if none is clean.
    rates: Vec<(f64, f64)>,
    /// The number of pairs.
    measured: usize,
    /// How many of them are clean on both sides.
    clean: usize,
}

impl Pairs {
    fn of(finished: &Rounds, before: &PointId, after: &PointId) -> Self {
        let pairs = finished.pairs(before, after);
        let clean = finished.clean_pairs(before, after);
        Self {
            measured: pairs.clone().count(),
            clean: clean.len(),
            rates: match clean.is_empty() {
                true => pairs.filter_map(|(b, a)| b.rate().zip(a.rate())).collect(),
                false => clean,
            },
        }
    }
}
