//! Sampling a testcase while it runs.

use std::cell::RefCell;
use std::io;
use std::path::PathBuf;

use anyhow::Context;
use knee_host::utc;
use knee_host::workdir::WorkDir;
use knee_host::{Interrupt, Topology};
use knee_profile::capture::Work;
use knee_profile::sampling::{Options, Target};
use knee_results::{ITERATIONS, Mode, PointId};
use knee_run::catalogue::Selected;
use knee_run::job::{Job, Phase, START_TIMEOUT, Sample};
use knee_run::launch::Launcher;
use knee_run::needs::{self, TMPFS};
use knee_run::plan::Case;
use knee_run::stopped::Stopped;
use knee_run::sweep::spare_cpu;
use knee_run::testcase::Need;

use super::args::HowArgs;
use super::watch::Recorder;
use crate::args::existing;
use crate::exit::{ExitStatus, bail_usage, failed};
use crate::present::profile::disturbance;
use crate::progress::Progress;
use crate::session::{WARMUP, topology};
use crate::stderr::tell_of_debug_build;

/// Seconds between counter readings.
const INTERVAL: f64 = 0.1;

/// The count of intervals in `seconds`, at least one.
fn count(seconds: f64) -> u64 {
    (seconds / INTERVAL).ceil().max(1.0) as u64
}

/// What was sampled of a point.
pub(super) struct Sampled<T> {
    /// What the sampler recorded.
    pub(super) taken: T,
    /// The signal that interrupted it, if any.
    pub(super) interrupted: Option<i32>,
    pub(super) point: PointId,
    pub(super) intervals: Intervals,
}

/// The intervals in which a point was sampled.
#[derive(Default)]
pub(super) struct Intervals {
    pub(super) all: u64,
    /// How many of them other work disturbed.
    pub(super) disturbed: u64,
}

impl Intervals {
    /// The intervals of these samples.
    pub(super) fn of(samples: &[Sample]) -> Self {
        let mut intervals = Self::default();
        samples.iter().for_each(|sample| intervals.add(sample));
        intervals
    }

    /// Whether most of them were disturbed.
    pub(super) fn are_disturbed(&self) -> bool {
        2 * self.disturbed > self.all
    }

    /// Counts an interval, or marks all of them.
    fn add(&mut self, sample: &Sample) {
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

impl<T> Sampled<T> {
    /// Warns if other work disturbed the point.
    pub(super) fn warn(&self) {
        disturbance(&self.point, self.intervals.disturbed, self.intervals.all);
    }
}

/// A testcase to sample.
pub(super) struct Bench<'a> {
    selected: Selected,
    pub(super) case: Case,
    pub(super) mode: Mode,
    pub(super) topology: Topology,
    how: &'a HowArgs,
    dir: PathBuf,
}

impl<'a> Bench<'a> {
    pub(super) fn of(
        selected: &Selected,
        mode: Option<Mode>,
        how: &'a HowArgs,
    ) -> anyhow::Result<Bench<'a>> {
        let name = &selected.testcase.name;
        let case = Case::built_in(selected);
        let asked = mode.map_or(Mode::ALL.to_vec(), |mode| vec![mode]);
        let Some(&mode) = case.modes(&asked).first() else {
            let other = if asked == [Mode::Processes] { "threads" } else { "processes" };
            bail_usage!("{name} runs only as {other}; use -m {other}");
        };
        let dir = match &how.dir {
            Some(dir) => existing("--dir", dir)?,
            None if selected.testcase.needs.contains(&Need::Tmpfs) => TMPFS.into(),
            None => existing("TMPDIR", &std::env::temp_dir())?,
        };
        tell_of_debug_build();
        Ok(Bench { selected: selected.clone(), case, mode, topology: topology(None)?, how, dir })
    }

    /// Runs `tasks` tasks, and samples them for `seconds` after the warm-up. With `describes`, prints
    /// what the sampler records.
    pub(super) fn sample<W: Recorder>(
        &self,
        tasks: u32,
        seconds: f64,
        interrupt: &Interrupt,
        describes: bool,
    ) -> anyhow::Result<Sampled<W::Taken>> {
        let started_at = utc::now();
        let sampler = RefCell::new(None);
        let mut iterations = 0.0;
        let mut intervals = Intervals::default();
        let mut has_begun = false;
        let mut progress = Progress::new(self.how.quiet);
        let watch = |runner: i32| {
            let fixed_code = !self.selected.testcase.starts_programs;
            let options = Options { without: Some(runner), fixed_code, ..self.how.options() };
            let opened = W::open(&Target::Process(runner), &options);
            *sampler.borrow_mut() = Some(opened.map_err(io::Error::other)?);
            Ok(())
        };
        let samples = count(seconds);
        let result = self.round(tasks, seconds, interrupt, watch, |sample| {
            let mut sampler = sampler.borrow_mut();
            let sampler: &mut W = sampler.as_mut().expect("the sampler opens before tasks start");
            match sample.phase {
                Phase::Warmup => {
                    sampler.enable().map_err(io::Error::other)?;
                    if describes {
                        sampler.describe();
                    }
                    has_begun = true;
                }
                Phase::Round => intervals.add(&sample),
                Phase::Measure if intervals.all == samples => (),
                Phase::Measure => {
                    let rate: f64 = sample.rates.iter().sum();
                    iterations += rate / self.case.steps as f64 * sample.seconds;
                    intervals.add(&sample);
                    let taken = intervals.all;
                    if taken == samples {
                        sampler.disable().map_err(io::Error::other)?;
                    } else {
                        sampler.show(&mut progress, taken as f64 * INTERVAL, Some(seconds));
                    }
                }
            }
            Ok(())
        });
        let interrupted = match result? {
            Ok(()) => None,
            Err(Stopped::Interrupted(signal)) if has_begun => Some(signal),
            Err(stopped) => return Err(self.error(stopped)),
        };
        let sampler = sampler.into_inner().expect("the round is over");
        let point = PointId { case: self.case.id.clone(), mode: self.mode, tasks };
        drop(progress);
        let (title, work) = match interrupted {
            None => {
                let iterations = iterations.round() as u64;
                let disturbed = intervals.are_disturbed();
                let unit = ITERATIONS.to_owned();
                let point = point.clone();
                let work = Work { point, iterations, unit, server: None, disturbed };
                (work.point.to_string(), Some(work))
            }
            // The tasks ran until they were stopped, and have not reported their iterations.
            Some(_) => (format!("{point}, interrupted"), None),
        };
        Ok(Sampled {
            taken: sampler.finish(title, started_at, work)?,
            interrupted,
            point,
            intervals,
        })
    }

    /// Measures the iterations per second of `tasks` tasks without sampling. `None` if other work
    /// disturbed most intervals.
    pub(super) fn rate(
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
    fn round(
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
        let cpus = self.how.placement.order(&self.topology);
        let samples = count(seconds);
        let job = Job {
            case: self.case.id.clone(),
            source: self.case.source.clone(),
            mode: self.mode,
            tasks,
            sampler_cpu: spare_cpu(&cpus, tasks, &self.case),
            cpus,
            pin: self.how.placement.pins(),
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

    /// The error for a round that leaves no capture.
    fn error(&self, stopped: Stopped) -> anyhow::Error {
        no_capture(&self.case, stopped)
    }
}

/// The error for a round of `case` that leaves no capture.
pub(super) fn no_capture(case: &Case, stopped: Stopped) -> anyhow::Error {
    match stopped {
        Stopped::Failed(failure) => failed(
            ExitStatus::of_failure(failure.kind),
            format!("{}: {}; {}", case.id, failure.reason, failure.remedy),
        ),
        Stopped::Interrupted(signal) => interrupted(signal),
        Stopped::ByReceiver(error) => error.into(),
    }
}

/// The error for a signal that leaves no capture.
pub(super) fn interrupted(signal: i32) -> anyhow::Error {
    failed(ExitStatus::Interrupted(signal), "interrupted")
}
