//! The CSV of will-it-scale's runtest.py: one block per testcase, with the fixed header and the
//! artificial first row that its plots start from. The format cannot mark a disturbed point, so such a
//! point has no result in it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use knee_results::{CaseId, Curve, Mode, Point};

use crate::present::csv::unquoted;

/// One block per testcase. If there are several testcases, a `# NAME` line precedes each block.
pub(crate) fn render(curves: &[Curve]) -> String {
    let mut names: Vec<&CaseId> = curves.iter().map(|curve| &curve.case).collect();
    names.dedup();
    let mut text = String::new();
    for (i, name) in names.iter().enumerate() {
        if names.len() > 1 {
            let gap = if i > 0 { "\n" } else { "" };
            let _ = writeln!(text, "{gap}# {}", unquoted(&name.to_string()));
        }
        text += &block(name, curves);
    }
    text
}

fn block(name: &CaseId, curves: &[Curve]) -> String {
    let all = || {
        let curves = curves.iter().filter(|curve| curve.case == *name);
        curves.flat_map(|curve| curve.points().iter().map(move |point| (curve.mode, point)))
    };
    let tasks: BTreeSet<u32> = all().map(|(_, point)| point.tasks).collect();
    let points: BTreeMap<(Mode, u32), &Point> = all()
        .filter(|(_, point)| !point.disturbed)
        .map(|(mode, point)| ((mode, point.tasks), point))
        .collect();
    // Slope of the column `linear`: the rate per task at the lowest task count, in the faster mode.
    let per_task = tasks.first().map_or(0.0, |&fewest| {
        let rate = |mode| points.get(&(mode, fewest)).map_or(0.0, |p| p.rate);
        rate(Mode::Processes).max(rate(Mode::Threads)) / f64::from(fewest)
    });
    let mut text =
        "tasks,processes,processes_idle,threads,threads_idle,linear\n0,0,100,0,100,0\n".to_owned();
    for &n in &tasks {
        let cell = |mode| match points.get(&(mode, n)) {
            Some(p) => {
                let idle = p.cpu.map_or(0.0, |cpu| cpu.machine_idle * 100.0);
                format!("{:.0},{idle:.2}", p.rate)
            }
            // What runtest.py prints for a run without a result.
            None => "-1,0.00".to_owned(),
        };
        let linear = per_task * f64::from(n);
        let _ = writeln!(text, "{n},{},{},{linear:.0}", cell(Mode::Processes), cell(Mode::Threads));
    }
    text
}
