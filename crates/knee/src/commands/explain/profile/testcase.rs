//! Sampling a testcase while it runs.

use std::cell::RefCell;
use std::io;

use knee_host::{Interrupt, utc};
use knee_profile::capture::Work;
use knee_profile::sampling::{Options, Target};
use knee_results::{ITERATIONS, PointId};
use knee_run::job::Phase;
use knee_run::stopped::Stopped;

use super::args::HowArgs;
use super::watch::Recorder;
use crate::present::profile::disturbance;
use crate::progress::Progress;
use crate::session::bench::{Bench, INTERVAL, Intervals, count};

/// What was sampled of a point.
pub(super) struct Sampled<T> {
    /// What the sampler recorded.
    pub(super) taken: T,
    /// The signal that interrupted it, if any.
    pub(super) interrupted: Option<i32>,
    pub(super) point: PointId,
    pub(super) intervals: Intervals,
}

impl<T> Sampled<T> {
    /// Warns if other work disturbed the point.
    pub(super) fn warn(&self) {
        disturbance(&self.point, self.intervals.disturbed, self.intervals.all);
    }
}

/// A testcase to sample, and how.
pub(super) struct Sampling<'a> {
    pub(super) bench: Bench,
    pub(super) how: &'a HowArgs,
}

impl Sampling<'_> {
    /// Runs `tasks` tasks, and samples them for `seconds` after the warm-up. With `describes`, prints
    /// what the sampler records.
    pub(super) fn sample<W: Recorder>(
        &self,
        tasks: u32,
        seconds: f64,
        interrupt: &Interrupt,
        describes: bool,
    ) -> anyhow::Result<Sampled<W::Taken>> {
        let bench = &self.bench;
        let started_at = utc::now();
        let sampler = RefCell::new(None);
        let mut iterations = 0.0;
        let mut intervals = Intervals::default();
        let mut has_begun = false;
        let mut progress = Progress::new(self.how.quiet);
        let watch = |runner: i32| {
            let fixed_code = !bench.selected.testcase.starts_programs;
            let options = Options { without: Some(runner), fixed_code, ..self.how.options() };
            let opened = W::open(&Target::Process(runner), &options);
            *sampler.borrow_mut() = Some(opened.map_err(io::Error::other)?);
            Ok(())
        };
        let samples = count(seconds);
        let result = bench.round(tasks, seconds, interrupt, watch, |sample| {
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
                    iterations += rate / bench.case.steps as f64 * sample.seconds;
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
            Err(stopped) => return Err(bench.error(stopped)),
        };
        let sampler = sampler.into_inner().expect("the round is over");
        let point = PointId { case: bench.case.id.clone(), mode: bench.mode, tasks };
        drop(progress);
        let (title, work) = match interrupted {
            None => {
                let iterations = iterations.round() as u64;
                let disturbed = intervals.are_disturbed();
                let unit = ITERATIONS.to_owned();
                let point = point.clone();
                let (server, command) = (None, None);
                let work = Work { point, iterations, unit, server, command, disturbed };
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
}
