//! Sampling a server while it is under load.

use knee_host::number::plural;
use knee_host::{Interrupt, auto_tasks, cgroup};
use knee_profile::capture::{UnderLoad, Work};
use knee_results::{Mode, PointId};
use knee_run::job::Sample;
use knee_run::plan::Case;
use knee_run::server::{Places, unshared};

use super::args::HowArgs;
use super::rounds::{Rounds, Shown};
use super::testcase::Sampled;
use super::watch::Recorder;
use crate::exit::bail_usage;
use crate::progress::Progress;
use crate::session::bench::Intervals;

/// A server to sample.
pub(super) struct Service<'a>(pub(super) Rounds<'a>);

impl<'a> Service<'a> {
    pub(super) fn of(
        case: Case,
        mode: Option<Mode>,
        how: &'a HowArgs,
    ) -> anyhow::Result<Service<'a>> {
        Ok(Service(Rounds::of(case, mode, how)?))
    }

    /// The largest default number of CPUs at which the load has CPUs of its own or comes from another host, or 1.
    pub(super) fn most(&self) -> u32 {
        let auto = auto_tasks(&self.0.topology, cgroup::cpu_quota());
        let all = match self.0.case.has_load_here() {
            true => unshared(auto, &self.0.cpus, &self.0.topology),
            false => auto,
        };
        all.last().copied().unwrap_or(1)
    }

    /// The default numbers of CPUs to compare: 1 and [`Service::most`]. If that is 1, the load shares two CPUs.
    pub(super) fn ends(&self) -> anyhow::Result<Vec<u32>> {
        match self.most() {
            1 if self.0.cpus.len() < 2 => bail_usage!(
                "knee needs at least two CPUs to compare a server on one CPU and on more, but only one is \
                 usable; allow knee to use more CPUs"
            ),
            most => Ok(vec![1, most.max(2)]),
        }
    }

    /// `nginx on 2 CPUs for 3 s; the load shares these CPUs`
    pub(super) fn describe(&self, tasks: u32, seconds: f64) -> String {
        let places = Places::new(&self.0.cpus, tasks, &self.0.topology);
        let note = match places.shared {
            _ if !self.0.case.has_load_here() => "",
            _ if !self.0.how.placement.pins() => "; the load may run on the same CPUs",
            true if places.load == places.server && tasks == 1 => "; the load shares this CPU",
            true if places.load == places.server => "; the load shares these CPUs",
            true => "; the load has too few CPUs of its own",
            false => "",
        };
        format!("{} on {} for {seconds} s{note}", self.0.case.id, plural(tasks as usize, "CPU"))
    }

    /// Runs the server on `tasks` CPUs with load for `seconds`, and samples its processes in the measured part of
    /// the load. With `describes`, prints what the sampler records.
    pub(super) fn sample<W: Recorder>(
        &self,
        tasks: u32,
        seconds: f64,
        interrupt: &Interrupt,
        describes: bool,
    ) -> anyhow::Result<Sampled<W::Taken>> {
        let shown = Shown { describes, before: 0.0, planned: seconds };
        let mut progress = Progress::new(self.0.how.quiet);
        let round = self.0.run::<W>(tasks, seconds, interrupt, shown, &mut progress)?;
        drop(progress);
        let point = self.0.point(tasks);
        let (title, work, intervals, interrupted) = match round.samples {
            Ok(samples) => {
                let intervals = Intervals::of(&samples);
                let disturbed = intervals.are_disturbed();
                let work = self.work(&point, &samples[0], round.seconds, disturbed);
                (point.to_string(), Some(work), intervals, None)
            }
            Err(signal) => {
                (format!("{point}, interrupted"), None, Intervals::default(), Some(signal))
            }
        };
        let taken = round.recorder.finish(title, round.started_at, work)?;
        Ok(Sampled { taken, interrupted, point, intervals })
    }

    /// The work of the server while it was sampled for `seconds`.
    fn work(&self, point: &PointId, sample: &Sample, seconds: f64, disturbed: bool) -> Work {
        let rate: f64 = sample.rates.iter().sum();
        let server =
            sample.server.map(|used| UnderLoad { busy: used.server_busy, shared: used.shared });
        Work {
            point: point.clone(),
            iterations: (rate * seconds).round() as u64,
            unit: self.0.case.unit.clone(),
            server,
            command: None,
            disturbed,
        }
    }
}
