//! A process of a server testcase: the server itself, a command before the load, or the load. The other
//! files know nothing of process groups.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ExitStatus};
use std::time::{Duration, Instant};

use knee_host::Interrupt;
use knee_host::process::{any_readable, ended_with, read_tail, wait_readable};
use knee_host::signal::describe_end;
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitOptions, kill_process, kill_process_group, pidfd_open, waitpid,
};

use super::start::Setting;
use super::tree;
use crate::job::{Failure, FailureKind};
use crate::stopped::Stopped;

/// How much of the end of the output to keep.
const TAIL_BYTES: usize = 64 << 10;
/// How many of its last lines a failure shows.
const LAST_LINES: usize = 3;
/// How long a process may take to end if its result is no longer wanted.
const END_PATIENCE: Duration = Duration::from_millis(500);
/// How often to look for further descendants of a killed process, which may have just been created.
const PASSES: usize = 10;

/// A started process. Dropping it ends the process with all of its descendants.
pub(super) struct Process {
    /// What it is for, such as `the server`.
    role: &'static str,
    /// Its command line.
    pub(super) line: String,
    /// The end of its standard output.
    pub(super) stdout: Vec<u8>,
    stderr: Vec<u8>,
    child: Child,
    /// Readable once the process has ended.
    exit: OwnedFd,
    /// The signal that asks it to end.
    signal: Signal,
    end: Option<ExitStatus>,
}

impl Process {
    /// Starts `line` for the purpose `role`.
    ///
    /// # Errors
    /// The program is missing or cannot be executed.
    pub(super) fn start(
        role: &'static str,
        line: String,
        setting: &Setting<'_>,
        signal: Signal,
    ) -> Result<Self, Failure> {
        let refused = |error: io::Error| {
            let reason = format!("cannot start {role} {line}: {error}");
            let remedy = "commands run in a private directory; write {here}/PROGRAM for a program beside \
                          the description";
            Failure::new(FailureKind::CannotRun, reason, remedy)
        };
        let mut child = setting.start(&line).map_err(refused)?;
        let exit = pidfd_open(Pid::from_child(&child), PidfdFlags::empty())
            .inspect_err(|_| drop(child.kill().and_then(|()| child.wait())))
            .map_err(|error| Failure::runner(format!("cannot watch {role}: {error}")))?;
        let (stdout, stderr) = (Vec::new(), Vec::new());
        Ok(Self { role, line, stdout, stderr, child, exit, signal, end: None })
    }

    pub(super) fn id(&self) -> i32 {
        self.child.id().cast_signed()
    }

    /// CPU seconds of the process and its descendants.
    pub(super) fn cpu_seconds(&self) -> f64 {
        tree::cpu_seconds(self.id())
    }

    /// How the process ended, if it has.
    pub(super) fn end(&self) -> Option<ExitStatus> {
        self.end
    }

    /// Whether its output contains `text`.
    pub(super) fn has_printed(&self, text: &str) -> bool {
        let contains = |output: &[u8]| String::from_utf8_lossy(output).contains(text);
        contains(&self.stdout) || contains(&self.stderr)
    }

    /// A failure of this process, with the last lines of its output: `the server redis-server: WHAT: …`.
    pub(super) fn failure(&self, kind: FailureKind, what: &str, remedy: &str) -> Failure {
        let reason = format!("{} {} {what}{}", self.role, self.line, self.last_words());
        Failure::new(kind, reason, remedy)
    }

    /// The failure of a process that has ended, `when`.
    pub(super) fn death(&self, when: &str, remedy: &str) -> Failure {
        let end = self.end.map_or("died".to_owned(), |end| describe_end(end.signal(), end.code()));
        // The statuses of a shell for a missing program and for a file that is not a program.
        let is_missing = matches!(self.end.and_then(|end| end.code()), Some(126 | 127));
        let kind = if is_missing { FailureKind::CannotRun } else { FailureKind::Died };
        self.failure(kind, &format!("{end} {when}"), remedy)
    }

    /// `: LINE | LINE`, the last lines of its error output, or else of its output.
    fn last_words(&self) -> String {
        let output = if self.stderr.is_empty() { &self.stdout } else { &self.stderr };
        let text = String::from_utf8_lossy(output);
        let mut lines: Vec<&str> = text
            .lines()
            .rev()
            .map(str::trim)
            .filter(|line| !line.is_empty())
            .take(LAST_LINES)
            .collect();
        lines.reverse();
        if lines.is_empty() { String::new() } else { format!(": {}", lines.join(" | ")) }
    }

    /// Asks the process to end, and waits for it at most `patience`.
    ///
    /// # Errors
    /// A signal asked knee to stop.
    pub(super) fn stop(mut self, patience: Duration, interrupt: &Interrupt) -> Result<(), Stopped> {
        self.ask();
        let until = Instant::now() + patience;
        while self.end.is_none() && Instant::now() < until {
            watch(&mut [&mut self], until, interrupt)?;
        }
        Ok(())
    }

    fn ask(&self) {
        let _ = kill_process_group(Pid::from_child(&self.child), self.signal);
    }

    /// What to wait for: its end, and its output.
    fn watched(&self) -> [Option<BorrowedFd<'_>>; 3] {
        [
            self.end.is_none().then(|| self.exit.as_fd()),
            self.child.stdout.as_ref().map(AsFd::as_fd),
            self.child.stderr.as_ref().map(AsFd::as_fd),
        ]
    }

    /// Reads what can be read. `ended` says whether the process has ended.
    fn follow(&mut self, ended: bool) -> io::Result<()> {
        // A pipe at its end would be ready forever.
        if let Some(pipe) = &mut self.child.stdout
            && read_tail(pipe, &mut self.stdout, TAIL_BYTES)
        {
            self.child.stdout = None;
        }
        if let Some(pipe) = &mut self.child.stderr
            && read_tail(pipe, &mut self.stderr, TAIL_BYTES)
        {
            self.child.stderr = None;
        }
        if ended {
            self.end = Some(ended_with(&self.exit)?);
        }
        Ok(())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if self.end.is_none() {
            self.ask();
            wait_readable(&self.exit, END_PATIENCE);
        }
        let leader = Pid::from_child(&self.child);
        // The leader is reaped last, because its number may be reused afterwards. A descendant that outlives
        // its parent becomes a child of knee.
        let mut known = vec![self.id()];
        for _ in 0..PASSES {
            let members = tree::members(&known, self.id());
            let _ = kill_process_group(leader, Signal::KILL);
            for pid in members.iter().filter_map(|(pid, _)| Pid::from_raw(*pid)) {
                let _ = kill_process(pid, Signal::KILL);
            }
            let has_living = members.iter().any(|(_, stat)| stat.state() != Some("Z"));
            known.extend(members.into_iter().map(|(pid, _)| pid));
            known.sort_unstable();
            known.dedup();
            if !has_living {
                break;
            }
        }
        for pid in known.into_iter().filter(|&pid| pid != self.id()).filter_map(Pid::from_raw) {
            let _ = waitpid(Some(pid), WaitOptions::empty());
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits until one of `processes` has written something or ended, or `until`.
///
/// # Errors
/// A signal asked knee to stop.
pub(super) fn watch(
    processes: &mut [&mut Process],
    until: Instant,
    interrupt: &Interrupt,
) -> Result<(), Stopped> {
    let failed = |error: io::Error| Failure::runner(format!("cannot watch a process: {error}"));
    let ready = {
        let watched = processes.iter().flat_map(|process| process.watched());
        let watched: Vec<Option<BorrowedFd<'_>>> =
            std::iter::once(Some(interrupt.as_fd())).chain(watched).collect();
        any_readable(&watched, Some(until)).map_err(failed)?
    };
    if ready[0]
        && let Some(signal) = interrupt.take()
    {
        return Err(Stopped::Interrupted(signal));
    }
    for (process, ready) in processes.iter_mut().zip(ready[1..].chunks_exact(3)) {
        if ready.contains(&true) {
            process.follow(ready[0]).map_err(failed)?;
        }
    }
    Ok(())
}
