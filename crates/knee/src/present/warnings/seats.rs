//! Whether there were CPUs enough: one for each task, and one for the measuring process.

use std::fmt;

use knee_measure::record::RunRecord;
use knee_measure::summary::CurveSummary;
use knee_measure::sweep::spare_cpu;

use crate::present::number::tasks;

/// A number of tasks; another one holds where a task occupies two CPUs, its helper the second.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Limit {
    pub(crate) one_cpu_each: Option<u32>,
    pub(crate) two_cpus_each: Option<u32>,
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.one_cpu_each, self.two_cpus_each) {
            (None, None) => Ok(()),
            (Some(n), None) => f.write_str(&tasks(n)),
            (None, Some(n)) => write!(f, "{} (two CPUs each)", tasks(n)),
            (Some(n), Some(two)) => write!(f, "{} ({two} where each takes two CPUs)", tasks(n)),
        }
    }
}

impl Limit {
    fn of(&mut self, two_cpus_each: bool) -> &mut Option<u32> {
        if two_cpus_each { &mut self.two_cpus_each } else { &mut self.one_cpu_each }
    }

    fn exists(self) -> Option<Self> {
        (self != Self::default()).then_some(self)
    }
}

/// From how many tasks on the measuring process had no CPU of its own.
pub(super) fn without_spare_cpu(run: &RunRecord, curves: &[CurveSummary]) -> Option<Limit> {
    let mut from = Limit::default();
    for (case, tasks) in measured(run, curves) {
        if spare_cpu(&run.request.cpus, tasks, case).is_none() {
            let from = from.of(case.uses_next_cpu());
            *from = Some(from.map_or(tasks, |least| least.min(tasks)));
        }
    }
    from.exists()
}

/// The most tasks that have their CPUs for themselves, where points with more were measured.
pub(super) fn shared_beyond(run: &RunRecord, curves: &[CurveSummary]) -> Option<Limit> {
    let cpus = run.request.cpus.len() as u32;
    let mut most = Limit::default();
    for (case, tasks) in measured(run, curves) {
        let fit = if case.uses_next_cpu() { cpus / 2 } else { cpus };
        if tasks > fit {
            *most.of(case.uses_next_cpu()) = Some(fit);
        }
    }
    most.exists()
}

fn measured<'a>(
    run: &'a RunRecord,
    curves: &'a [CurveSummary],
) -> impl Iterator<Item = (&'a knee_measure::plan::Case, u32)> {
    curves.iter().flat_map(|curve| {
        let case = run.case(&curve.testcase);
        curve.points.iter().filter_map(move |entry| Some((case?, entry.point.point.tasks)))
    })
}
