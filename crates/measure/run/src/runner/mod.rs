//! The runner: one fresh process per round of a point, and the parent of its tasks.
//!
//! ```text
//! knee ── job, then silence ──▶ runner ── fork ──▶ task 0 … task n-1   (processes)
//!      ◀── events ───────────          └─ fork ──▶ one process, n threads
//! ```
//!
//! The runner has one thread and never runs the loop itself, so that it can always kill its tasks
//! with SIGKILL and clean up after them; a thread that is cancelled in the middle of `malloc` can
//! hang forever. The runner sleeps in one `poll`, which returns at once when knee exits (its input
//! is closed), when a task dies (SIGCHLD) and when all tasks are ready (the bell). With a
//! single-threaded runner, the C library stays in its single-threaded mode in process tasks, as in
//! an ordinary program.

mod hold;
mod loaded;
mod plugin;
mod run_delays;
mod sampler;
mod spawn;
mod wait;

use std::time::{Duration, Instant};

use crate::Catalogue;
use crate::area::Area;
use crate::job::{Event, Failure, FailureKind, Job, MAPS};
use crate::needs::blaming_full_disk;
use loaded::Loaded;
pub use plugin::check as check_plugin;
use sampler::Sampler;
use spawn::Tasks;
use wait::{Link, Wake};

/// The hidden subcommand of knee that runs a runner.
pub const SUBCOMMAND: &str = "runner";

/// A task without progress for one interval plus this time counts as hung. On a busy machine, tasks
/// that wait for each other have stopped for seconds.
const HUNG_AFTER: Duration = Duration::from_secs(10);
/// Interval between checks of tasks that made no progress in the last interval.
const LOOK_AGAIN: Duration = Duration::from_millis(5);
/// Additional time for each task if tasks wait for each other's turns.
const HUNG_AFTER_PER_TASK: Duration = Duration::from_millis(30);
/// Additional time for each task.
const READY_TIMEOUT_PER_TASK: Duration = Duration::from_millis(20);

/// Why a round ended early.
enum Stop {
    /// knee no longer wants the result.
    Unwanted,
    Failed(Failure),
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

/// The main function of a runner: reads a job from standard input, runs it, and reports events on
/// standard output. Returns the exit status.
pub fn main(catalogue: Catalogue) -> i32 {
    // It was started as /proc/self/exe, so tools would show its tasks as `exe`.
    let _ = rustix::thread::set_name(c"knee");
    let (mut link, job) = match Link::open() {
        Ok(opened) => opened,
        Err(error) => {
            eprintln!(
                "knee {SUBCOMMAND} is internal to knee run; do not start it by hand: {error}"
            );
            return 2;
        }
    };
    match run(&mut link, &job, catalogue) {
        Ok(()) | Err(Stop::Unwanted) => 0,
        Err(Stop::Failed(failure)) => {
            link.send(&Event::Failed(failure));
            1
        }
    }
}

fn run(link: &mut Link, job: &Job, catalogue: Catalogue) -> Result<(), Stop> {
    let mut round = Round::prepare(link, job, catalogue)?;
    let result = round.run(link).map_err(|stop| match stop {
        // Before the files of the tasks are removed.
        Stop::Failed(failure) => blaming_full_disk(failure, &job.dir, job.tasks).into(),
        Stop::Unwanted => Stop::Unwanted,
    });
    round.clean_up(link);
    if result.is_ok() {
        link.send(&Event::Done);
    }
    result
}

/// One round: what it runs, and what to clean up.
struct Round<'a> {
    job: &'a Job,
    loaded: Loaded,
    area: Area,
    tasks: Tasks,
}

impl<'a> Round<'a> {
    fn prepare(link: &Link, job: &'a Job, catalogue: Catalogue) -> Result<Self, Stop> {
        spawn::raise_limits();
        spawn::shift_maps(job.layout % MAPS);
        let map = if job.latency.is_some() { Area::timed } else { Area::new };
        let area = map(job.tasks as usize, job.cpus.len())
            .map_err(|e| Failure::runner(format!("cannot map the counters: {e}")))?;
        let load = || {
            let loaded = Loaded::load(job, catalogue)?;
            loaded.prepare(job, &area)?;
            Ok::<_, Failure>(loaded)
        };
        let loaded = spawn::with_parent_watched(link, load).ok_or(Stop::Unwanted)??;
        Ok(Self { job, loaded, area, tasks: Tasks::none() })
    }

    fn run(&mut self, link: &mut Link) -> Result<(), Stop> {
        let (job, loaded, area) = (self.job, &self.loaded, &self.area);
        self.tasks.start(loaded, job, area, link.event_fd(), |group| {
            link.send(&Event::Starting { description: loaded.description(), group });
        })?;
        self.wait_until_ready(link)?;
        let mut sampler = Sampler::new(job, &self.loaded, &self.area, &mut self.tasks);
        spawn::take_seat(job.sampler_cpu);
        self.area.open_gate();
        sampler.begin();
        let patience = job.interval + (HUNG_AFTER + HUNG_AFTER_PER_TASK * job.tasks).as_secs_f64();
        let warmup = (job.warmup > 0.0).then_some(job.warmup);
        let measured = (0..job.samples.unwrap_or(u64::MAX)).map(|_| job.interval);
        for seconds in warmup.into_iter().chain(measured) {
            let until = sampler.deadline(seconds);
            sleep(link, until, &mut self.tasks, &self.area)?;
            let sample = sampler.sample(seconds);
            sampler.check_counts()?;
            sampler.check_clock()?;
            link.send(&Event::Sample(Box::new(sample)));
            sampler.check_progress(seconds, patience)?;
        }
        // On a busy machine, a task may not have run in the last interval.
        while sampler.has_idle_task() {
            let soon = Instant::now() + LOOK_AGAIN;
            sleep(link, soon, &mut self.tasks, &self.area)?;
            sampler.check_progress(LOOK_AGAIN.as_secs_f64(), patience)?;
        }
        self.tasks.check(&self.area)?;
        self.tasks.kill();
        link.send(&Event::Sample(Box::new(sampler.round())));
        Ok(())
    }

    fn wait_until_ready(&mut self, link: &mut Link) -> Result<(), Stop> {
        let tasks = self.job.tasks;
        let timeout =
            Duration::from_secs_f64(self.job.start_timeout) + READY_TIMEOUT_PER_TASK * tasks;
        let deadline = Instant::now() + timeout;
        while self.area.ready() < tasks as usize {
            if Instant::now() >= deadline {
                let (ready, seconds) = (self.area.ready(), timeout.as_secs_f64());
                let remedy = "its set-up hangs or is slow here; try -t 1 or a longer \
                    --start-timeout";
                let reason =
                    format!("only {ready} of {tasks} tasks were ready after {seconds:.0} s");
                return Err(Failure::new(FailureKind::Hung, reason, remedy).into());
            }
            let soon = Instant::now() + Duration::from_millis(20);
            match link.wait(soon.min(deadline), Some(self.area.bell())) {
                Wake::Time => {}
                Wake::Stop => return Err(Stop::Unwanted),
                Wake::Child => self.tasks.check(&self.area)?,
            }
        }
        Ok(())
    }

    fn clean_up(&mut self, link: &Link) {
        self.tasks.kill();
        if let Loaded::Plugin(plugin) = &self.loaded {
            spawn::leave_seat();
            spawn::with_parent_watched(link, || plugin.clean_up());
        }
    }
}

/// Sleeps until `deadline`, unless a task dies or knee no longer wants the result.
fn sleep(link: &mut Link, deadline: Instant, tasks: &mut Tasks, area: &Area) -> Result<(), Stop> {
    loop {
        match link.wait(deadline, None) {
            Wake::Time => return Ok(()),
            Wake::Stop => return Err(Stop::Unwanted),
            // The child may also be a descendant of a task that became a child of the runner.
            Wake::Child => tasks.check(area)?,
        }
    }
}
