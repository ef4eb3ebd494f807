//! Sampling rounds of a server or a command.

use std::io;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::Context;
use knee_host::workdir::WorkDir;
use knee_host::{Interrupt, Topology, utc};
use knee_profile::sampling::{Options, Target};
use knee_results::{Family, Mode, PointId};
use knee_run::job::{Job, START_TIMEOUT, Sample};
use knee_run::launch::run_observed;
use knee_run::observer::RoundObserver;
use knee_run::plan::Case;
use knee_run::stopped::Stopped;

use super::args::HowArgs;
use super::watch::Recorder;
use crate::args::{existing, require_one_word};
use crate::exit::bail_usage;
use crate::progress::Progress;
use crate::session::bench::not_ended;
use crate::session::{SERVER_WARMUP, topology};

/// A server or a command, and how to sample it.
pub(super) struct Rounds<'a> {
    pub(super) case: Case,
    pub(super) topology: Topology,
    pub(super) how: &'a HowArgs,
    /// The CPUs in the order of the placement.
    pub(super) cpus: Vec<u32>,
    dir: PathBuf,
}

/// A round that was sampled.
pub(super) struct Round<W> {
    pub(super) started_at: String,
    pub(super) recorder: W,
    /// Seconds that were sampled.
    pub(super) seconds: f64,
    /// The measured part and the whole round, or the signal that interrupted it.
    pub(super) samples: Result<[Sample; 2], i32>,
}

impl<'a> Rounds<'a> {
    pub(super) fn of(case: Case, mode: Option<Mode>, how: &'a HowArgs) -> anyhow::Result<Self> {
        if mode == Some(Mode::Threads) {
            let kind = if case.family == Family::Server { "server" } else { "command" };
            bail_usage!("-m threads applies only to testcases; leave out -m for a {kind}");
        }
        let (option, dir) = match &how.dir {
            Some(dir) => ("--dir", existing("--dir", dir)?),
            None => ("TMPDIR", existing("TMPDIR", &std::env::temp_dir())?),
        };
        require_one_word(option, &dir, std::slice::from_ref(&case))?;
        let topology = topology(None)?;
        let cpus = how.placement.order(&topology);
        Ok(Self { case, topology, how, cpus, dir })
    }

    /// The point with `tasks` tasks.
    pub(super) fn point(&self, tasks: u32) -> PointId {
        PointId { case: self.case.id.clone(), mode: Mode::Processes, tasks }
    }

    /// Runs a round of `tasks` tasks, and samples the processes of the command, or those of the server in the measured
    /// part of the load, which lasts for `interval` seconds. `shown` says what the sampling is a part of.
    pub(super) fn run<W: Recorder>(
        &self,
        tasks: u32,
        interval: f64,
        interrupt: &Interrupt,
        shown: Shown,
        progress: &mut Progress,
    ) -> anyhow::Result<Round<W>> {
        let started_at = utc::now();
        let mut work = WorkDir::create(&self.dir)
            .with_context(|| format!("cannot write to {}", self.dir.display()))?;
        let dir = work.begin_round()?;
        let job = Job {
            case: self.case.id.clone(),
            source: self.case.source.clone(),
            mode: Mode::Processes,
            tasks,
            cpus: self.cpus.clone(),
            pin: self.how.placement.pins(),
            sampler_cpu: None,
            warmup: SERVER_WARMUP,
            interval,
            start_timeout: START_TIMEOUT,
            samples: Some(1),
            latency: None,
            counters: None,
            dir: dir.clone(),
            layout: 0,
        };
        let mut recording = Recording::<'_, W> {
            options: self.how.options(),
            shown,
            recorder: None,
            since: None,
            seconds: 0.0,
            progress,
        };
        let result = run_observed(&job, interrupt, &mut recording);
        work.end_round(&dir)?;
        if recording.since.is_some() {
            // A signal has ended the round.
            recording.end()?;
        }
        let Recording { recorder, seconds, .. } = recording;
        let samples = match result {
            Ok(samples) => Ok(samples),
            Err(Stopped::Interrupted(signal)) if seconds > 0.0 => Err(signal),
            Err(stopped) => return Err(not_ended(&self.case, stopped)),
        };
        let recorder = recorder.context("the server was never ready")?;
        Ok(Round { started_at, recorder, seconds, samples })
    }
}

/// What knee shows of a sampling.
#[derive(Clone, Copy)]
pub(super) struct Shown {
    /// Whether to describe the sampler.
    pub(super) describes: bool,
    /// Seconds that were sampled before.
    pub(super) before: f64,
    /// Seconds to sample in all.
    pub(super) planned: f64,
}

/// Records the measured part of a round.
struct Recording<'p, W> {
    options: Options,
    shown: Shown,
    recorder: Option<W>,
    since: Option<Instant>,
    /// Seconds for which it recorded.
    seconds: f64,
    progress: &'p mut Progress,
}

impl<W: Recorder> Recording<'_, W> {
    fn recorder(&mut self) -> &mut W {
        self.recorder.as_mut().expect("the round was ready before")
    }
}

impl<W: Recorder> RoundObserver for Recording<'_, W> {
    fn ready(&mut self, roots: &[i32]) -> io::Result<()> {
        let target = Target::Trees(roots.to_vec());
        let recorder = W::open(&target, &self.options).map_err(io::Error::other)?;
        if self.shown.describes {
            recorder.describe();
        }
        self.recorder = Some(recorder);
        Ok(())
    }

    fn begin(&mut self) -> io::Result<()> {
        self.recorder().enable().map_err(io::Error::other)?;
        self.since = Some(Instant::now());
        Ok(())
    }

    fn measuring(&mut self) -> io::Result<()> {
        if let (Some(recorder), Some(since)) = (&self.recorder, self.since) {
            let done = self.shown.before + since.elapsed().as_secs_f64();
            recorder.show(self.progress, done, Some(self.shown.planned));
        }
        Ok(())
    }

    fn end(&mut self) -> io::Result<()> {
        self.recorder().disable().map_err(io::Error::other)?;
        self.seconds += self.since.take().map_or(0.0, |since| since.elapsed().as_secs_f64());
        Ok(())
    }
}
