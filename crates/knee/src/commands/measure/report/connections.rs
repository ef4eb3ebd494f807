//! Curves over connections on a page.

use std::collections::{BTreeMap, BTreeSet};

use knee_report::{Curve, Missing, Page};
use knee_results::{self as results, Axis, CaseId, Mode};

use crate::present::fit::OVER_CONNECTIONS;

/// A server with this task count, without its number of connections.
type Sweep = (CaseId, Mode, u32);

/// Adds the curves over connections of all servers with several numbers of connections. They replace the
/// curves with a single task count, which contain the same points.
pub(super) fn add_sweeps(page: &mut Page) {
    let mut numbers: BTreeMap<Sweep, BTreeSet<u32>> = BTreeMap::new();
    for (sweep, connections) in page.curves.iter().flat_map(positions) {
        numbers.entry(sweep).or_default().insert(connections);
    }
    numbers.retain(|_, connections| connections.len() > 1);
    let mut swept: BTreeMap<(usize, Sweep), Curve> = BTreeMap::new();
    for curve in &page.curves {
        for (sweep, connections) in positions(curve).filter(|(s, _)| numbers.contains_key(s)) {
            let new = empty(curve.run, &sweep);
            if let Some(info) = page.cases.get(&curve.measured.case).cloned() {
                page.cases.insert(new.measured.case.clone(), info);
            }
            let tasks = sweep.2;
            add_position(swept.entry((curve.run, sweep)).or_insert(new), curve, connections, tasks);
        }
    }
    page.curves.retain(|curve| {
        let mut all = positions(curve);
        let only = all.next().filter(|_| all.next().is_none());
        !only.is_some_and(|(sweep, _)| numbers.contains_key(&sweep))
    });
    page.curves.extend(swept.into_values());
    let shown: BTreeSet<&CaseId> = page.curves.iter().map(|curve| &curve.measured.case).collect();
    page.cases.retain(|id, _| id.connections().is_none() || shown.contains(id));
}

/// For each point or gap of a curve of a server with a number of connections: the sweep that it belongs
/// to, and this number.
fn positions(curve: &Curve) -> impl Iterator<Item = (Sweep, u32)> + '_ {
    let tasks = curve.measured.points().iter().map(|point| point.tasks);
    let tasks = tasks.chain(curve.missing.iter().map(|gap| gap.tasks));
    tasks.filter_map(|tasks| {
        let (case, connections) = curve.measured.case.split_connections()?;
        Some(((case, curve.measured.mode, tasks), connections))
    })
}

/// A curve of run number `run` without points.
fn empty(run: usize, (case, mode, tasks): &Sweep) -> Curve {
    let case = case.clone().with_param("tasks", tasks);
    let measured = results::Curve::new(case, *mode, Vec::new());
    let measured = measured.along(Axis::Connections { tasks: *tasks });
    Curve { fit: Err(OVER_CONNECTIONS.to_owned()), ..Curve::new(run, measured) }
}

/// Adds the point or gap that `curve` has at `tasks` to `sweep`.
fn add_position(sweep: &mut Curve, curve: &Curve, connections: u32, tasks: u32) {
    if let Some(point) = curve.measured.at(tasks) {
        let results::Curve { case, mode, axis, .. } = sweep.measured.clone();
        let mut points = sweep.measured.points().to_vec();
        points.push(point.with_connections(connections));
        sweep.measured = results::Curve::new(case, mode, points).along(axis);
    }
    let gaps = curve.missing.iter().filter(|gap| gap.tasks == tasks);
    sweep.missing.extend(gaps.map(|gap| Missing { tasks: connections, ..gap.clone() }));
    sweep.changes.extend(curve.changes.get(&tasks).map(|change| (connections, *change)));
}
