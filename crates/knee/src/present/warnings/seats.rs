//! Task counts at which tasks share CPUs, or the measuring process has no CPU of its own.

use std::fmt;

use knee_host::number::tasks;
use knee_results::Curve;
use knee_run::plan::Case;
use knee_run::record::RunRecord;
use knee_run::sweep::spare_cpu;

/// A limit on the task count. Tasks that occupy two CPUs, one of them for a helper, have a separate
/// limit.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Limit {
    one_cpu_each: Option<u32>,
    two_cpus_each: Option<u32>,
    /// An example of a testcase whose tasks occupy two CPUs.
    such_as: String,
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let such_as = &self.such_as;
        match (self.one_cpu_each, self.two_cpus_each) {
            (None, None) => Ok(()),
            (Some(n), None) => f.write_str(&tasks(n)),
            (None, Some(n)) => write!(f, "{} (two CPUs per task, as in {such_as})", tasks(n)),
            (Some(n), Some(two)) => {
                write!(f, "{} ({two} if each task takes two CPUs, as in {such_as})", tasks(n))
            }
        }
    }
}

impl Limit {
    /// Lowers the limit for tasks like those of `case` to `tasks`, if it is higher.
    fn lower_to(&mut self, tasks: u32, case: &Case) {
        let limit = if case.cpus_per_task > 1 {
            if self.such_as.is_empty() {
                self.such_as = case.id.to_string();
            }
            &mut self.two_cpus_each
        } else {
            &mut self.one_cpu_each
        };
        *limit = Some(limit.map_or(tasks, |least| least.min(tasks)));
    }

    fn exists(self) -> Option<Self> {
        (self != Self::default()).then_some(self)
    }
}

/// The lowest task count at which the measuring process has no CPU of its own. It takes no samples of
/// commands.
pub(super) fn without_spare_cpu(run: &RunRecord, curves: &[Curve]) -> Option<Limit> {
    let mut from = Limit::default();
    for (case, tasks) in measured(run, curves).filter(|(case, _)| !case.is_command()) {
        if spare_cpu(&run.request.cpus, tasks, case).is_none() {
            from.lower_to(tasks, case);
        }
    }
    from.exists()
}

/// The highest task count without shared CPUs, if points with more tasks were measured.
pub(super) fn shared_beyond(run: &RunRecord, curves: &[Curve]) -> Option<Limit> {
    let cpus = run.request.cpus.len() as u32;
    let mut most = Limit::default();
    for (case, tasks) in measured(run, curves) {
        let fit = if case.cpus_per_task > 1 { cpus / 2 } else { cpus };
        if tasks > fit {
            most.lower_to(fit, case);
        }
    }
    most.exists()
}

fn measured<'a>(run: &'a RunRecord, curves: &'a [Curve]) -> impl Iterator<Item = (&'a Case, u32)> {
    curves.iter().flat_map(|curve| {
        let case = run.case(&curve.case);
        curve.points().iter().filter_map(move |point| Some((case?, point.tasks)))
    })
}
