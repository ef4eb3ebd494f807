//! The side of knee in a round: starts a runner, follows its events, and makes sure that it ends.

use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

use knee_host::Interrupt;
use knee_host::affinity::pin;
use knee_host::process::{
    Ties, ended_with, last_line, read_available, read_tail, readable, reap_group, spawn,
    wait_readable,
};
use knee_host::signal::describe_end;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::command;
use crate::job::{DIED_REMEDY, Event, Failure, FailureKind, Job, Sample, Source};
use crate::observer::RoundObserver;
use crate::runner::SUBCOMMAND;
use crate::server;
use crate::stopped::Stopped;

/// How late the next event may be before the runner counts as hung.
const PATIENCE: Duration = Duration::from_secs(20);
/// Additional time during set-up: the runner has limits of its own, and should report first that
/// one is exceeded.
const STARTUP_PATIENCE: Duration = Duration::from_secs(2);
/// Additional time for each task.
const PATIENCE_PER_TASK: Duration = Duration::from_millis(50);
/// How long a runner may take to clean up after a request to stop.
const STOP_PATIENCE: Duration = Duration::from_secs(5);
/// The same after an interrupt, because knee itself must then end within a second.
const INTERRUPTED_PATIENCE: Duration = Duration::from_millis(500);
/// How much of the tasks' error output to keep, to explain a failure.
const STDERR_KEPT: usize = 2048;

/// This program. Not the path it was started by, because that file may be replaced meanwhile.
const PROGRAM: &str = "/proc/self/exe";

/// Runs a round in a runner, which is this same program, or as a command.
pub struct Launcher;

/// Runs one round, for real or from a script in tests.
pub trait Executor {
    /// Runs one round, in a runner or as a command. `receive` gets the testcase's description and
    /// each sample as soon as it is taken.
    fn run(
        &mut self,
        job: &Job,
        interrupt: &Interrupt,
        receive: &mut dyn FnMut(&str, Sample) -> io::Result<()>,
    ) -> Result<(), Stopped>;
}

impl Executor for Launcher {
    fn run(
        &mut self,
        job: &Job,
        interrupt: &Interrupt,
        receive: &mut dyn FnMut(&str, Sample) -> io::Result<()>,
    ) -> Result<(), Stopped> {
        let description = match &job.source {
            Source::Command { command } => &command.line,
            Source::Server { server, .. } => &server.description,
            Source::Plugin { .. } | Source::BuiltIn {} => {
                return self.run_watched(job, interrupt, |_| Ok(()), receive);
            }
        };
        for sample in run_observed(job, interrupt, &mut ())? {
            receive(description, sample).map_err(Stopped::ByReceiver)?;
        }
        Ok(())
    }
}

impl Launcher {
    /// Like [`Executor::run`], but only for jobs with a runner. `watch` gets the process ID of the
    /// runner before any task exists. Tasks are children of the runner or threads of a child.
    pub fn run_watched(
        &self,
        job: &Job,
        interrupt: &Interrupt,
        watch: impl FnOnce(i32) -> io::Result<()>,
        receive: impl FnMut(&str, Sample) -> io::Result<()>,
    ) -> Result<(), Stopped> {
        run_watched(job, interrupt, watch, receive).map_err(|stopped| match stopped {
            Stopped::Failed(failure) => failure.with_tasks(job.tasks).into(),
            other => other,
        })
    }
}

/// Runs one round of a job with a command or a server, and tells `observer` of its course. The first sample is the
/// measured part, which is all of a command. The second one is the whole round, with the speed of the reference loop
/// after it.
///
/// # Errors
/// The command, the server or its load failed, a signal asked knee to stop, or `observer` returned an error.
///
/// # Panics
/// If the job has a runner.
pub fn run_observed(
    job: &Job,
    interrupt: &Interrupt,
    observer: &mut dyn RoundObserver,
) -> Result<[Sample; 2], Stopped> {
    match &job.source {
        Source::Command { command } => command::run(command, job, interrupt, observer),
        Source::Server { server, here } => server::run(server, here, job, interrupt, observer),
        Source::Plugin { .. } | Source::BuiltIn {} => panic!("{} has a runner", job.case),
    }
}

fn run_watched(
    job: &Job,
    interrupt: &Interrupt,
    watch: impl FnOnce(i32) -> io::Result<()>,
    mut receive: impl FnMut(&str, Sample) -> io::Result<()>,
) -> Result<(), Stopped> {
    let _seat = Seat::take(job.sampler_cpu);
    let failed = |e: io::Error| Failure::runner(format!("cannot start a runner: {e}"));
    let mut runner = Runner::start(job).map_err(failed)?;
    watch(runner.child.id().cast_signed()).map_err(Stopped::ByReceiver)?;
    runner.send(job).map_err(failed)?;
    let mut description = String::new();
    let startup = Duration::from_secs_f64(job.start_timeout);
    let mut patience = startup + STARTUP_PATIENCE;
    loop {
        match runner.next_event(patience, interrupt)? {
            Event::Starting { description: text, group } => {
                description = text;
                runner.tasks = Pid::from_raw(group);
                // The start timeout applies again until all tasks are ready; then comes the
                // first interval.
                let first = Duration::from_secs_f64(job.warmup.max(job.interval));
                patience = startup + first + PATIENCE + PATIENCE_PER_TASK * job.tasks;
            }
            Event::Sample(sample) => {
                patience = Duration::from_secs_f64(job.interval)
                    + PATIENCE
                    + PATIENCE_PER_TASK * job.tasks;
                receive(&description, *sample).map_err(Stopped::ByReceiver)?;
            }
            Event::Failed(failure) => return Err(runner.with_last_words(failure).into()),
            Event::Done => {
                runner.tasks = None;
                return Ok(());
            }
        }
    }
}

/// A started runner. Dropping it ends it and all of its tasks.
struct Runner {
    child: Child,
    /// Readable once the runner is dead, even if a process that a testcase started survives and
    /// keeps its pipes open.
    exit: OwnedFd,
    /// Open while the round is wanted.
    input: Option<ChildStdin>,
    /// How long it may take to stop.
    stop_patience: Duration,
    tasks: Option<Pid>,
    events: Vec<u8>,
    stderr: Vec<u8>,
}

impl Runner {
    fn start(job: &Job) -> io::Result<Self> {
        let mut runner = Command::new(PROGRAM);
        runner.arg0("knee").arg(SUBCOMMAND);
        runner.env("KNEE_PADDING", "x".repeat(job.layout as usize));
        runner.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = spawn(runner.process_group(0), Ties::default())?;
        let exit = pidfd_open(Pid::from_child(&child), PidfdFlags::empty())
            .inspect_err(|_| drop(child.kill().and_then(|()| child.wait())))?;
        let input = child.stdin.take();
        Ok(Self {
            child,
            exit,
            input,
            stop_patience: STOP_PATIENCE,
            tasks: None,
            events: Vec::new(),
            stderr: Vec::new(),
        })
    }

    fn send(&mut self, job: &Job) -> io::Result<()> {
        let (stdout, stderr) = (self.child.stdout.as_ref(), self.child.stderr.as_ref());
        for fd in [stdout.map(AsFd::as_fd), stderr.map(AsFd::as_fd)] {
            rustix::io::ioctl_fionbio(fd.expect("both are piped"), true)?;
        }
        let mut line = serde_json::to_vec(job)?;
        line.push(b'\n');
        self.input.as_mut().expect("it is piped").write_all(&line)
    }

    fn next_event(&mut self, patience: Duration, interrupt: &Interrupt) -> Result<Event, Stopped> {
        let deadline = Instant::now() + patience;
        loop {
            if let Some(line) = take_line(&mut self.events) {
                return serde_json::from_slice(&line).map_err(|e| {
                    let text = String::from_utf8_lossy(&line);
                    Failure::runner(format!("the runner sent {text:?}: {e}")).into()
                });
            }
            if Instant::now() >= deadline {
                return Err(self
                    .with_last_words(Failure::new(
                        FailureKind::Hung,
                        format!("no response for {:.0} s", patience.as_secs_f64()),
                        "its prepare or cleanup function hangs; if it is only slow, use a longer \
                         --start-timeout",
                    ))
                    .into());
            }
            let closed = self.wait_and_read(deadline, interrupt)?;
            if closed && !self.events.contains(&b'\n') {
                return Err(self.explain_death().into());
            }
        }
    }

    /// Waits for output and reads it; `true` if no more will come.
    fn wait_and_read(&mut self, deadline: Instant, interrupt: &Interrupt) -> Result<bool, Stopped> {
        let (Some(events), Some(stderr)) = (&mut self.child.stdout, &mut self.child.stderr) else {
            return Ok(true);
        };
        let watched = [interrupt.as_fd(), self.exit.as_fd(), events.as_fd(), stderr.as_fd()];
        let [interrupted, dead, ready, noisy] = readable(watched.map(Some), Some(deadline))
            .map_err(|error| Failure::runner(format!("poll: {error}")))?;
        if interrupted && let Some(signal) = interrupt.take() {
            self.stop_patience = INTERRUPTED_PATIENCE;
            return Err(Stopped::Interrupted(signal));
        }
        if noisy {
            read_tail(stderr, &mut self.stderr, STDERR_KEPT);
        }
        let closed = ready && read_available(events, &mut self.events);
        Ok(closed || dead)
    }

    fn explain_death(&mut self) -> Failure {
        self.input = None;
        let how = match ended_with(&self.exit) {
            Ok(status) => describe_end(status.signal(), status.code()),
            Err(error) => error.to_string(),
        };
        self.with_last_words(Failure::new(
            FailureKind::Died,
            format!("the runner {how} during preparation or cleanup"),
            DIED_REMEDY,
        ))
    }

    /// Adds the last line of error output. For example, the text of an assertion is more useful
    /// than "was killed by SIGABRT".
    fn with_last_words(&mut self, mut failure: Failure) -> Failure {
        if let Some(stderr) = &mut self.child.stderr {
            read_available(stderr, &mut self.stderr);
        }
        if let Some(line) = last_line(&self.stderr) {
            failure.reason = format!("{}: {line}", failure.reason);
        }
        failure
    }
}

impl Drop for Runner {
    fn drop(&mut self) {
        // Asks the runner to stop, and waits until it has cleaned up.
        self.input = None;
        // knee reads no more events, and a runner that waits for room in the pipe would wait
        // forever.
        self.child.stdout = None;
        wait_readable(&self.exit, self.stop_patience);
        // Kills the runner, and the processes that `prepare` started and the runner could not end.
        // This happens before the runner is reaped, because the number of its group may be reused
        // afterwards.
        let group = Pid::from_child(&self.child);
        let _ = kill_process_group(group, Signal::KILL);
        let _ = self.child.wait();
        reap_group(group);
        if let Some(tasks) = self.tasks {
            let _ = kill_process_group(tasks, Signal::KILL);
            reap_group(tasks);
        }
    }
}

/// Keeps knee itself, which writes the samples, on the CPU that no task uses.
struct Seat {
    before: CpuSet,
}

impl Seat {
    fn take(cpu: Option<u32>) -> Option<Self> {
        let before = sched_getaffinity(None).ok()?;
        pin(cpu?).ok()?;
        Some(Self { before })
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let _ = sched_setaffinity(None, &self.before);
    }
}

fn take_line(buffer: &mut Vec<u8>) -> Option<Vec<u8>> {
    let end = buffer.iter().position(|&b| b == b'\n')?;
    let rest = buffer.split_off(end + 1);
    let mut line = std::mem::replace(buffer, rest);
    line.pop();
    Some(line)
}
