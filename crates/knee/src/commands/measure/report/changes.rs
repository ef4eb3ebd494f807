//! What changed between the first run and another one.

use knee_report::{Change, ChangeVerdict, Curve, Ratio, Run};
use knee_results::{Compared, Key, Results};
use knee_stats::{Comparison, Verdict};

use super::run::label;

/// Adds each change to its point. A change without a point on a curve is added to `run` as text.
pub(super) fn add(compared: &Compared, before: &Results, curves: &mut [Curve], run: &mut Run) {
    for point in &compared.points {
        let change = change(&point.comparison);
        let Key { case, mode, tasks } = &point.key;
        if let (Some(mode), Some(tasks)) = (mode, tasks) {
            let is_of = |curve: &&mut Curve| curve.measured.case == *case && curve.mode() == *mode;
            if let Some(curve) = curves.iter_mut().find(is_of) {
                curve.changes.insert(*tasks, change);
            }
            continue;
        }
        let by = change.ratio.map_or(String::new(), |ratio| {
            format!(" ×{:.3} [{:.3}, {:.3}]", ratio.value, ratio.low, ratio.high)
        });
        let verdict = format!("{:?}", change.verdict).to_lowercase();
        let against = format!(" Against {}: {verdict}{by}.", label(&before.source));
        let about = format!("{case}: ");
        run.off_chart
            .iter_mut()
            .filter(|sentence| sentence.starts_with(&about))
            .for_each(|sentence| sentence.push_str(&against));
    }
}

fn change(comparison: &Comparison) -> Change {
    let (verdict, mut note) = match comparison.verdict {
        Verdict::Faster => (ChangeVerdict::Faster, String::new()),
        Verdict::Slower => (ChangeVerdict::Slower, String::new()),
        Verdict::Same => (ChangeVerdict::Same, String::new()),
        Verdict::Inconclusive { rounds_needed } => (
            ChangeVerdict::Inconclusive,
            rounds_needed.map_or(String::new(), |n| format!("{n} rounds would tell")),
        ),
    };
    if comparison.ratio.is_none() {
        "no ratio: a round of the first run did nothing".clone_into(&mut note);
    }
    Change {
        ratio: comparison.ratio.map(|r| Ratio { value: r.ratio, low: r.low, high: r.high }),
        p: comparison.adjusted_p,
        verdict,
        note,
    }
}
