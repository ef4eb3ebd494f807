//! Events of the processors and the kernel before and after.

use std::collections::BTreeSet;

use knee_host::number::plural;
use knee_host::text::{Cell, Column, Table};
use knee_results::{Compared, ComparedPoint, PointCounters, Results};

use super::{change, colour};
use crate::present::table::counters::{Shown, qualifications};

/// The table; `None` if no point has counters on both sides. Unless `all` is set, it has only points that are faster
/// or slower. `none` stands for unknown values.
pub(super) fn table(compared: &Compared, all: bool, none: &str) -> Option<Table> {
    let mut table = Table::new(vec![
        Column::left("counters"),
        Column::left("per operation"),
        Column::right("before"),
        Column::right("after"),
        Column::right("change"),
    ]);
    table.titles();
    let mut is_empty = true;
    for (point, [before, after]) in compared.points.iter().filter_map(counted) {
        if !all && !point.comparison.verdict.is_change() {
            continue;
        }
        let mut name = point.key.to_string();
        for shown in Shown::ALL {
            let Some((old, new)) = shown.value(before).zip(shown.value(after)) else { continue };
            let change = if old > 0.0 { change(new / old) } else { none.to_owned() };
            table.row(vec![
                // The other rows of the point need no name.
                Cell::new(std::mem::take(&mut name), colour(point.comparison.verdict)),
                shown.title().into(),
                shown.cell(before).into(),
                shown.cell(after).into(),
                change.into(),
            ]);
            is_empty = false;
        }
    }
    (!is_empty).then_some(table)
}

/// Says of how many points the counters are in the table only if all are.
pub(super) fn hidden(compared: &Compared) -> Option<String> {
    let counted = compared.points.iter().filter_map(counted);
    let hidden = counted.filter(|(point, _)| !point.comparison.verdict.is_change()).count();
    (hidden > 0).then(|| {
        let verb = if hidden == 1 { "is" } else { "are" };
        let points = plural(hidden, "point");
        format!(
            "--detail also prints the counters of {points} that {verb} neither faster nor slower"
        )
    })
}

/// What qualifies the values of the two sides, and what they could not count.
pub(super) fn notes(compared: &Compared, sides: [&Results; 2]) -> Vec<String> {
    let mut all = Vec::new();
    // Without a common point, no counter is missing at any.
    if compared.points.is_empty() {
        return all;
    }
    for (nr, side) in sides.into_iter().enumerate() {
        let set = side.origin.as_ref().and_then(|run| run.request.counters.as_ref());
        let counters: Vec<&PointCounters> =
            compared.points.iter().filter_map(|point| point.counters[nr].as_ref()).collect();
        all.extend(set.into_iter().flat_map(|set| qualifications(set, &counters)));
    }
    // Both sides usually ran on the same machine.
    let mut seen = BTreeSet::new();
    all.retain(|note| seen.insert(note.clone()));
    all
}

fn counted(point: &ComparedPoint) -> Option<(&ComparedPoint, [&PointCounters; 2])> {
    let [before, after] = &point.counters;
    Some((point, [before.as_ref()?, after.as_ref()?]))
}
