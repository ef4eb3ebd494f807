//! The processes of a command: one, or a copy per task, each under a keeper.

use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;
use std::time::{Duration, Instant};

use knee_host::Interrupt;
use knee_host::clock::seconds;
use knee_host::limits::raise_open_files;
use knee_host::process::keeper::{Kept, Prepared, Program};
use knee_host::process::{any_readable, last_line, read_available, wait_readable};
use knee_host::signal::describe_end;
use rustix::process::{Pid, Rlimit, Signal};
use rustix::time::ClockId;

use super::words::words;
use crate::job::{Command, Failure, FailureKind, Job, Score};
use crate::observer::RoundObserver;
use crate::stopped::Stopped;

/// Advice for a command that cannot be started or that fails.
const ADVICE: &str = "run the command by hand to see why";
/// How much of the end of the output to keep.
const TAIL_BYTES: usize = 64 << 10;
/// How long knee sleeps at most before it tells the observer that the command still runs. Such a wake-up takes some
/// microseconds.
const NAP: Duration = Duration::from_millis(500);
/// How long an interrupted command may take to exit.
const END_PATIENCE: Duration = Duration::from_millis(500);

/// A command that is held, runs or has ended. Dropping it kills all copies with their descendants.
pub(super) struct Running {
    pub(super) copies: Vec<Started>,
}

/// A process of the command.
pub(super) struct Started {
    /// The command line, for messages.
    pub(super) line: String,
    /// What it has written so far.
    pub(super) stdout: Vec<u8>,
    stderr: Vec<u8>,
    kept: Kept,
    stage: Stage,
    /// Once it has ended: the latest possible time of its end, by CLOCK_MONOTONIC_RAW.
    ended: f64,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    Runs,
    HasEnded,
    /// It was successful, as its keeper has reported.
    Succeeded,
}

impl Running {
    /// Holds a copy of `command` for each of `lines`, on the CPUs beside it.
    pub(super) fn hold(
        lines: Vec<(String, Vec<u32>)>,
        command: &Command,
        job: &Job,
    ) -> Result<Self, Failure> {
        // Each copy has four descriptors.
        let open_files = raise_open_files();
        let prepare = |(line, cpus): (String, Vec<u32>)| {
            let prepared = program_of(&line, &cpus, open_files, command, job).prepare();
            let prepared = prepared.map_err(|error| not_started(&line, &error))?;
            Ok((prepared, line))
        };
        let hold = |(prepared, line): (Prepared, String)| {
            let kept = prepared.held().map_err(|error| not_started(&line, &error))?;
            let (stdout, stderr) = (Vec::new(), Vec::new());
            Ok(Started { line, stdout, stderr, kept, stage: Stage::Runs, ended: 0.0 })
        };
        // All keepers start at the same time.
        let prepared = lines.into_iter().map(prepare).collect::<Result<Vec<_>, Failure>>()?;
        Ok(Self { copies: prepared.into_iter().map(hold).collect::<Result<_, Failure>>()? })
    }

    /// The processes that exist before the command runs.
    pub(super) fn processes(&self) -> Vec<Pid> {
        self.copies.iter().flat_map(|copy| copy.kept.processes()).collect()
    }

    /// The parents of the processes that will execute the command.
    pub(super) fn keepers(&self) -> Vec<i32> {
        self.copies.iter().map(|copy| copy.kept.keeper()).collect()
    }

    /// The processes that will execute the command.
    pub(super) fn programs(&self) -> Vec<Pid> {
        self.copies.iter().map(|copy| copy.kept.id()).collect()
    }

    /// Lets all copies run.
    pub(super) fn release(&self) -> Result<(), Failure> {
        for copy in &self.copies {
            copy.kept.release().map_err(|error| not_started(&copy.line, &error))?;
        }
        Ok(())
    }

    /// Waits until all copies have ended, or one has failed. Reads their output meanwhile, so that they
    /// never block on a full pipe. Returns when the last one ended, by CLOCK_MONOTONIC_RAW.
    pub(super) fn wait(
        &mut self,
        interrupt: &Interrupt,
        observer: &mut dyn RoundObserver,
    ) -> Result<f64, Stopped> {
        while self.copies.iter().any(|copy| copy.stage < Stage::Succeeded) {
            let watched: Vec<Option<BorrowedFd<'_>>> = [Some(interrupt.as_fd())]
                .into_iter()
                .chain(self.copies.iter().flat_map(Started::watched))
                .collect();
            let ready = any_readable(&watched, Some(Instant::now() + NAP))
                .map_err(|error| Failure::runner(format!("cannot watch a command: {error}")))?;
            let now = seconds(ClockId::MonotonicRaw);
            observer.measuring().map_err(Stopped::ByReceiver)?;
            if ready[0]
                && let Some(signal) = interrupt.take()
            {
                self.terminate();
                return Err(Stopped::Interrupted(signal));
            }
            for (copy, ready) in self.copies.iter_mut().zip(ready[1..].chunks_exact(3)) {
                if ready[0] && copy.stage == Stage::Runs {
                    copy.ended = now;
                }
                if ready.contains(&true) {
                    copy.follow(ready[0])?;
                }
            }
        }
        Ok(self.copies.iter().map(|copy| copy.ended).fold(0.0, f64::max))
    }

    /// Ends the descendants of the copies, which have ended. Returns the names of their programs.
    pub(super) fn end(self) -> Vec<String> {
        // A keeper that was killed cannot report.
        let left = self.copies.into_iter().filter_map(|copy| copy.kept.end().ok());
        left.flat_map(|end| end.left).collect()
    }

    /// Asks all copies and the processes in their groups to exit.
    fn terminate(&self) {
        for copy in &self.copies {
            let _ = copy.kept.signal(Signal::TERM);
        }
        let until = Instant::now() + END_PATIENCE;
        for copy in &self.copies {
            wait_readable(copy.kept.exit(), until.saturating_duration_since(Instant::now()));
        }
    }
}

impl Started {
    /// What to wait for: its end and then the report of its keeper, and its output.
    fn watched(&self) -> [Option<BorrowedFd<'_>>; 3] {
        let end = match self.stage {
            Stage::Runs => Some(self.kept.exit()),
            Stage::HasEnded => Some(self.kept.report()),
            Stage::Succeeded => None,
        };
        let [stdout, stderr] = self.kept.pipes();
        [end, stdout, stderr]
    }

    /// Reads what can be read. `is_next` says whether the process has ended or its keeper has reported.
    fn follow(&mut self, is_next: bool) -> Result<(), Failure> {
        self.kept.read_tails(&mut self.stdout, &mut self.stderr, TAIL_BYTES);
        match self.stage {
            Stage::Runs if is_next => self.stage = Stage::HasEnded,
            Stage::HasEnded if is_next => {
                self.check()?;
                self.stage = Stage::Succeeded;
            }
            _ => {}
        }
        Ok(())
    }

    /// Returns a failure unless the process, which has ended, was successful.
    fn check(&mut self) -> Result<(), Failure> {
        if let Some(pipe) = &mut self.kept.stderr {
            read_available(pipe, &mut self.stderr);
        }
        let (status, at) = self.kept.ended().map_err(|error| not_started(&self.line, &error))?;
        // The keeper may be late, and so may knee, which Ctrl-Z stops.
        self.ended = self.ended.min(at);
        if status.success() {
            return Ok(());
        }
        let how = describe_end(status.signal(), status.code());
        let reason = last_line(&self.stderr).map_or(String::new(), |line| format!(": {line}"));
        let kind = FailureKind::of_command(status.code());
        let advice = match reason.contains("/dev/tty") {
            true => "a measured command has no terminal to read from; let it read a file instead",
            false => advice(status.code()),
        };
        Err(Failure::new(kind, format!("{} {how}{reason}", self.line), advice))
    }
}

/// Advice for a command that exited with this status.
fn advice(status: Option<i32>) -> &'static str {
    // Statuses of a shell (POSIX.1-2024, XCU 2.8.2).
    match status {
        Some(127) => "correct the name of the program, or install it",
        Some(126) => "make the program executable: chmod +x",
        _ => ADVICE,
    }
}

fn not_started(line: &str, error: &std::io::Error) -> Failure {
    Failure::new(FailureKind::CannotRun, format!("cannot start {line}: {error}"), ADVICE)
}

/// The program of a process of the command.
fn program_of(
    line: &str,
    cpus: &[u32],
    open_files: Rlimit,
    command: &Command,
    job: &Job,
) -> Program {
    let stdout = if command.score == Score::Printed { Stdio::piped() } else { Stdio::null() };
    let path = std::env::var_os("PATH").unwrap_or_default();
    Program::new(words(line, &command.dir, &path))
        .cpus(cpus)
        .open_files(open_files)
        .dir(&command.dir)
        .env("KNEE_PADDING", "x".repeat(job.layout as usize))
        .in_round(&job.dir)
        .stdout(stdout)
        .stderr(Stdio::piped())
}
