//! Sampling a server while it is under load.

use std::io;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::Context;
use knee_host::number::plural;
use knee_host::workdir::WorkDir;
use knee_host::{Interrupt, Topology, auto_tasks, cgroup, utc};
use knee_profile::capture::{UnderLoad, Work};
use knee_profile::sampling::{Options, Target};
use knee_results::{Mode, PointId};
use knee_run::job::{Job, START_TIMEOUT, Sample, Source};
use knee_run::plan::Case;
use knee_run::server::{Places, RoundObserver, run_observed, unshared};
use knee_run::stopped::Stopped;

use super::args::HowArgs;
use super::testcase::Sampled;
use super::watch::Recorder;
use crate::args::{existing, require_one_word};
use crate::exit::bail_usage;
use crate::progress::Progress;
use crate::session::bench::{Intervals, not_ended};
use crate::session::{SERVER_WARMUP, topology};

/// A server to sample.
pub(super) struct Service<'a> {
    pub(super) case: Case,
    pub(super) topology: Topology,
    how: &'a HowArgs,
    cpus: Vec<u32>,
    dir: PathBuf,
}

impl<'a> Service<'a> {
    pub(super) fn of(
        case: Case,
        mode: Option<Mode>,
        how: &'a HowArgs,
    ) -> anyhow::Result<Service<'a>> {
        if mode == Some(Mode::Threads) {
            bail_usage!("-m threads applies only to testcases; leave out -m for a server");
        }
        let (option, dir) = match &how.dir {
            Some(dir) => ("--dir", existing("--dir", dir)?),
            None => ("TMPDIR", existing("TMPDIR", &std::env::temp_dir())?),
        };
        require_one_word(option, &dir, std::slice::from_ref(&case))?;
        let topology = topology(None)?;
        let cpus = how.placement.order(&topology);
        Ok(Service { case, topology, how, cpus, dir })
    }

    /// The largest default number of CPUs at which the load has CPUs of its own or comes from another host, or 1.
    pub(super) fn most(&self) -> u32 {
        let auto = auto_tasks(&self.topology, cgroup::cpu_quota());
        let all = match self.case.has_load_here() {
            true => unshared(auto, &self.cpus, &self.topology),
            false => auto,
        };
        all.last().copied().unwrap_or(1)
    }

    /// The default numbers of CPUs to compare: 1 and [`Service::most`]. If that is 1, the load shares two CPUs.
    pub(super) fn ends(&self) -> anyhow::Result<Vec<u32>> {
        match self.most() {
            1 if self.cpus.len() < 2 => bail_usage!(
                "knee needs at least two CPUs to compare a server on one CPU and on more, but only one is \
                 usable; allow knee to use more CPUs"
            ),
            most => Ok(vec![1, most.max(2)]),
        }
    }

    /// `nginx on 2 CPUs for 3 s; the load shares these CPUs`
    pub(super) fn describe(&self, tasks: u32, seconds: f64) -> String {
        let places = Places::new(&self.cpus, tasks, &self.topology);
        let note = match places.shared {
            _ if !self.case.has_load_here() => "",
            _ if !self.how.placement.pins() => "; the load may run on the same CPUs",
            true if places.load == places.server && tasks == 1 => "; the load shares this CPU",
            true if places.load == places.server => "; the load shares these CPUs",
            true => "; the load has too few CPUs of its own",
            false => "",
        };
        format!("{} on {} for {seconds} s{note}", self.case.id, plural(tasks as usize, "CPU"))
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
        let Source::Server { server, here } = &self.case.source else {
            unreachable!("the case is a server");
        };
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
            interval: seconds,
            start_timeout: START_TIMEOUT,
            samples: Some(1),
            latency: None,
            counters: None,
            dir: dir.clone(),
            layout: 0,
        };
        let progress = Progress::new(self.how.quiet);
        let mut recording = Recording::<W>::new(self.how.options(), describes, seconds, progress);
        let result = run_observed(server, here, &job, interrupt, &mut recording);
        work.end_round(&dir)?;
        if recording.since.is_some() {
            // A signal has ended the round.
            recording.end()?;
        }
        let point = PointId { case: self.case.id.clone(), mode: Mode::Processes, tasks };
        let Recording { recorder, seconds, progress, .. } = recording;
        drop(progress);
        let (title, work, intervals, interrupted) = match result {
            Ok(samples) => {
                let intervals = Intervals::of(&samples);
                let work = self.work(&point, &samples[0], seconds, intervals.are_disturbed());
                (point.to_string(), Some(work), intervals, None)
            }
            Err(Stopped::Interrupted(signal)) if seconds > 0.0 => {
                (format!("{point}, interrupted"), None, Intervals::default(), Some(signal))
            }
            Err(stopped) => return Err(not_ended(&self.case, stopped)),
        };
        let recorder = recorder.context("the server was never ready")?;
        let taken = recorder.finish(title, started_at, work)?;
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
            unit: self.case.unit.clone(),
            server,
            disturbed,
        }
    }
}

/// Records the measured part of a round.
struct Recording<W> {
    options: Options,
    describes: bool,
    recorder: Option<W>,
    since: Option<Instant>,
    /// Seconds for which it recorded.
    seconds: f64,
    /// Seconds for which it is to record.
    planned: f64,
    progress: Progress,
}

impl<W: Recorder> Recording<W> {
    fn new(options: Options, describes: bool, planned: f64, progress: Progress) -> Self {
        Self { options, describes, recorder: None, since: None, seconds: 0.0, planned, progress }
    }

    fn recorder(&mut self) -> &mut W {
        self.recorder.as_mut().expect("the server was ready before")
    }
}

impl<W: Recorder> RoundObserver for Recording<W> {
    fn ready(&mut self, root: i32) -> io::Result<()> {
        let recorder = W::open(&Target::Tree(root), &self.options).map_err(io::Error::other)?;
        if self.describes {
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
            let done = since.elapsed().as_secs_f64();
            recorder.show(&mut self.progress, done, Some(self.planned));
        }
        Ok(())
    }

    fn end(&mut self) -> io::Result<()> {
        self.recorder().disable().map_err(io::Error::other)?;
        self.seconds += self.since.take().map_or(0.0, |since| since.elapsed().as_secs_f64());
        Ok(())
    }
}
