//! What changed from the first run to a further one.

use std::collections::BTreeMap;

use knee_report::{Change, ChangeVerdict, Ratio};
use knee_run::results::{Compared, Key, Results};
use knee_stats::{Comparison, Verdict};

use super::page::{Shown, label, shown_mode};

/// Puts the changes where they belong: to their points, or in words where there is no place.
pub(super) fn put(compared: &Compared, before: &Results, shown: &mut Shown) {
    let mut changes = BTreeMap::new();
    for point in &compared.points {
        let change = change(&point.comparison);
        let Key { case, mode, tasks } = &point.key;
        if let (Some(mode), Some(tasks)) = (mode, tasks) {
            changes.insert((case.to_string(), shown_mode(*mode), *tasks), change);
            continue;
        }
        let by = change.ratio.map_or(String::new(), |ratio| {
            format!(" ×{:.3} [{:.3}, {:.3}]", ratio.value, ratio.low, ratio.high)
        });
        let verdict = format!("{:?}", change.verdict).to_lowercase();
        let against = format!(" Against {}: {verdict}{by}.", label(&before.source));
        let about = format!("{case}: ");
        shown
            .run
            .off_chart
            .iter_mut()
            .filter(|sentence| sentence.starts_with(&about))
            .for_each(|sentence| sentence.push_str(&against));
    }
    for curve in &mut shown.curves {
        for point in &mut curve.points {
            point.change = changes.remove(&(curve.testcase.clone(), curve.mode, point.tasks));
        }
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
