//! A testcase that knee runs by itself, without a record.

use std::io;
use std::path::PathBuf;

use anyhow::Context;
use knee_host::workdir::WorkDir;
use knee_host::{Interrupt, Placement, Topology};
use knee_results::Mode;
use knee_run::catalogue::Selected;
use knee_run::job::{Job, Phase, START_TIMEOUT, Sample};
use knee_run::launch::Launcher;
use knee_run::needs;
use knee_run::plan::Case;
use knee_run::stopped::Stopped;
use knee_run::sweep::spare_cpu;

use super::{WARMUP, topology};
use crate::exit::{ExitStatus, bail_usage, failed};
use crate::stderr::tell_of_debug_build;

/// Seconds between counter readings.
pub(crate) const INTERVAL: f64 = 0.1;

/// The count of intervals in `seconds`, at least one.
pub(crate) fn count(seconds: f64) -> u64 {
    (seconds / INTERVAL).ceil().max(1.0) as u64
}

/// The intervals of a point.
#[derive(Default)]
pub(crate) struct Intervals {
    pub(crate) all: u64,
    /// How many of them other work disturbed.
    pub(crate) disturbed: u64,
}

impl Intervals {
    /// The intervals of these samples.
    pub(crate) fn of(samples: &[Sample]) -> Self {
        let mut intervals = Self::default();
        samples.iter().for_each(|sample| intervals.add(sample));
        intervals
    }

    /// Whether most of them were disturbed.
    pub(crate) fn are_disturbed(&self) -> bool {
        2 * self.disturbed > self.all
    }

    /// Counts an interval, or marks all of them.
    pub(crate) fn add(&mut self, sample: &Sample) {
        let is_marked = !sample.marks.is_empty();
        match sample.phase {
            Phase::Warmup => {}
            Phase::Measure => {
                self.all += 1;
                self.disturbed += u64::from(is_marked);
            }
            Phase::Round if is_marked => self.disturbed = self.all,
            Phase::Round => {}
        }
    }
}

/// A testcase, and how to run it.
pub(crate) struct Bench {
    pub(crate) selected: Selected,
    pub(crate) case: Case,
    pub(crate) mode: Mode,
    pub(crate) topology: Topology,
    placement: Placement,
    dir: PathBuf,
}

impl Bench {
    /// The testcase in this mode; without a mode, in its first one. It creates its files in `dir`.
    pub(crate) fn of(
        selected: &Selected,
        mode: Option<Mode>,
        dir: PathBuf,
        placement: Placement,
    ) -> anyhow::Result<Bench> {
        let name = &selected.testcase.name;
        let case = Case::built_in(selected);
        let asked = mode.map_or(Mode::ALL.to_vec(), |mode| vec![mode]);
        let Some(&mode) = case.modes(&asked).first() else {
            let other = if asked == [Mode::Processes] { "threads" } else { "processes" };
            bail_usage!("{name} runs only as {other}; use -m {other}");
        };
        tell_of_debug_build();
        let (selected, topology) = (selected.clone(), topology(None)?);
        Ok(Bench { selected, case, mode, topology, placement, dir })
    }

    /// Measures the iterations per second of `tasks` tasks without sampling. `None` if other work
    /// disturbed most intervals.
    pub(crate) fn rate(
        &self,
        tasks: u32,
        seconds: f64,
        interrupt: &Interrupt,
    ) -> anyhow::Result<Option<f64>> {
        let (mut iterations, mut all) = (0.0, 0.0);
        let mut intervals = Intervals::default();
        let receive = |sample: Sample| {
            intervals.add(&sample);
            if sample.phase == Phase::Measure {
                iterations += sample.rates.iter().sum::<f64>() * sample.seconds;
                all += sample.seconds;
            }
            Ok(())
        };
        let ended = self.round(tasks, seconds, interrupt, |_| Ok(()), receive)?;
        ended.map_err(|stopped| self.error(stopped))?;
        Ok((!intervals.are_disturbed()).then_some(iterations / all))
    }

    /// Runs one round of `tasks` tasks, in intervals that add up to `seconds` after the warm-up.
    pub(crate) fn round(
        &self,
        tasks: u32,
        seconds: f64,
        interrupt: &Interrupt,
        watch: impl FnOnce(i32) -> io::Result<()>,
        mut receive: impl FnMut(Sample) -> io::Result<()>,
    ) -> anyhow::Result<Result<(), Stopped>> {
        let context = needs::Context { dir: &self.dir, mode: self.mode, tasks };
        let needs = self.selected.testcase.needs;
        if let Some(failure) = needs.iter().find_map(|&need| needs::check(need, &context).err()) {
            return Ok(Err(failure.into()));
        }
        let mut work = WorkDir::create(&self.dir)
            .with_context(|| format!("cannot write to {}", self.dir.display()))?;
        let dir = work.begin_round()?;
        let cpus = self.placement.order(&self.topology);
        let samples = count(seconds);
        let job = Job {
            case: self.case.id.clone(),
            source: self.case.source.clone(),
            mode: self.mode,
            tasks,
            sampler_cpu: spare_cpu(&cpus, tasks, &self.case),
            cpus,
            pin: self.placement.pins(),
            warmup: WARMUP,
            interval: seconds / samples as f64,
            start_timeout: START_TIMEOUT,
            // One more than requested: tasks end after the last sample, and their CPU time must be read
            // while they run.
            samples: Some(samples + 1),
            latency: None,
            counters: None,
            dir: dir.clone(),
            layout: 0,
        };
        let result = Launcher.run_watched(&job, interrupt, watch, |_, sample| receive(sample));
        work.end_round(&dir)?;
        Ok(result)
    }

    /// The error for a round that did not end.
    pub(crate) fn error(&self, stopped: Stopped) -> anyhow::Error {
        not_ended(&self.case, stopped)
    }
}

/// The error for a round of `case` that did not end.
pub(crate) fn not_ended(case: &Case, stopped: Stopped) -> anyhow::Error {
    match stopped {
        Stopped::Failed(failure) => failed(
            ExitStatus::of_failure(failure.kind),
            format!("{}: {}; {}", case.id, failure.reason, failure.remedy),
        ),
        Stopped::Interrupted(signal) => interrupted(signal),
        Stopped::ByReceiver(error) => error.into(),
    }
}

/// The error for a signal.
pub(crate) fn interrupted(signal: i32) -> anyhow::Error {
    failed(ExitStatus::Interrupted(signal), "interrupted")
}
