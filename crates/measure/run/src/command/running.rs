//! The processes of a command: one, or a copy per task.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{self, Child, Stdio};
use std::time::Duration;

use knee_host::Interrupt;
use knee_host::limits::raise_open_files;
use knee_host::process::{
    Ties, any_readable, ended_with, last_line, read_available, read_tail, reap_group, spawn,
    wait_readable,
};
use knee_host::signal::describe_end;
use knee_host::workdir::DeadMansNote;
use rustix::process::{Pid, PidfdFlags, Signal, getpgid, kill_process_group, pidfd_open};

use crate::job::{Command, Failure, FailureKind, Job, Score};
use crate::stopped::Stopped;

/// Advice for a command that cannot be started or that fails.
const ADVICE: &str = "run the command by hand to see why";
/// A line with one of these characters needs a shell.
const SHELL_CHARACTERS: &str = "|&;<>()$`\\\"'*?[]#~=%!{}\n";
/// How much of the end of the output to keep.
const TAIL_BYTES: usize = 64 << 10;
/// How long an interrupted command may take to exit.
const END_PATIENCE: Duration = Duration::from_millis(500);

/// A running command. Dropping it terminates all copies with their process groups.
pub(super) struct Running {
    pub(super) copies: Vec<Started>,
    note: Option<DeadMansNote>,
}

/// A process, which has not been waited for.
pub(super) struct Started {
    /// The command line, for messages.
    pub(super) line: String,
    /// What it has written so far.
    pub(super) stdout: Vec<u8>,
    child: Child,
    /// Readable once the process has ended.
    exit: OwnedFd,
    stderr: Vec<u8>,
    ended: bool,
}

impl Running {
    /// Starts a copy of `command` for each of `lines`, on the CPUs beside it.
    pub(super) fn start(
        lines: Vec<(String, Vec<u32>)>,
        command: &Command,
        job: &Job,
    ) -> Result<Self, Failure> {
        // Each copy has three descriptors.
        let open_files = raise_open_files();
        let note = DeadMansNote::beside(&job.dir);
        let mut running = Self { copies: Vec::with_capacity(lines.len()), note };
        for (line, cpus) in lines {
            let group = running.group();
            let ties = Ties { cpus, open_files: Some(open_files), ..Ties::bound() };
            let child = start(&line, &ties, group, command, job).map_err(|error| {
                let reason = format!("cannot start {line}: {error}");
                Failure::new(FailureKind::CannotRun, reason, ADVICE)
            })?;
            let copy = Started::watch(line, child)
                .map_err(|error| Failure::runner(format!("cannot watch a command: {error}")))?;
            if let Some(note) = &running.note {
                note.add(copy.child.id());
            }
            running.copies.push(copy);
        }
        Ok(running)
    }

    /// The process group; `None` before the first copy has been started. Its leader is the first copy,
    /// whose number is not reused before it has been waited for.
    fn group(&self) -> Option<Pid> {
        self.copies.first().map(|leader| Pid::from_child(&leader.child))
    }

    /// The group in which the copies were started, and the group of each copy that has left it. A program such
    /// as timeout(1) creates a group of its own unless it already leads one.
    fn groups(&self) -> Vec<Pid> {
        // None of these numbers is reused before its process has been waited for.
        let pids = self.copies.iter().map(|copy| Pid::from_child(&copy.child));
        pids.filter(|&pid| getpgid(Some(pid)) == Ok(pid)).collect()
    }

    /// Waits until all copies have ended, or one has failed. Reads their output meanwhile, so that they
    /// never block on a full pipe.
    pub(super) fn wait(&mut self, interrupt: &Interrupt) -> Result<(), Stopped> {
        while self.copies.iter().any(|copy| !copy.ended) {
            let watched: Vec<Option<BorrowedFd<'_>>> = [Some(interrupt.as_fd())]
                .into_iter()
                .chain(self.copies.iter().flat_map(Started::watched))
                .collect();
            let ready = any_readable(&watched, None)
                .map_err(|error| Failure::runner(format!("cannot watch a command: {error}")))?;
            if ready[0]
                && let Some(signal) = interrupt.take()
            {
                self.end();
                return Err(Stopped::Interrupted(signal));
            }
            for (copy, ready) in self.copies.iter_mut().zip(ready[1..].chunks_exact(3)) {
                if ready.contains(&true) {
                    copy.follow(ready[0])?;
                }
            }
        }
        Ok(())
    }

    /// Asks all copies and their descendants to exit.
    fn end(&self) {
        for group in self.groups() {
            let _ = kill_process_group(group, Signal::TERM);
        }
        for copy in &self.copies {
            wait_readable(&copy.exit, END_PATIENCE / self.copies.len() as u32);
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Their descendants are killed before the leaders are reaped, because the numbers of the groups may
        // be reused afterwards.
        let groups = self.groups();
        for &group in &groups {
            let _ = kill_process_group(group, Signal::KILL);
        }
        self.note = None;
        for copy in &mut self.copies {
            // It may have left its group meanwhile.
            let _ = copy.child.kill();
            let _ = copy.child.wait();
        }
        groups.into_iter().for_each(reap_group);
    }
}

impl Started {
    fn watch(line: String, mut child: Child) -> io::Result<Self> {
        let exit = pidfd_open(Pid::from_child(&child), PidfdFlags::empty());
        let exit = exit.inspect_err(|_| drop(child.kill().and_then(|()| child.wait())))?;
        Ok(Self { line, stdout: Vec::new(), child, exit, stderr: Vec::new(), ended: false })
    }

    /// What to wait for: its end, and its output.
    fn watched(&self) -> [Option<BorrowedFd<'_>>; 3] {
        [
            (!self.ended).then(|| self.exit.as_fd()),
            self.child.stdout.as_ref().map(AsFd::as_fd),
            self.child.stderr.as_ref().map(AsFd::as_fd),
        ]
    }

    /// Reads what can be read. `ended` says whether the process has ended.
    fn follow(&mut self, ended: bool) -> Result<(), Failure> {
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
            self.ended = true;
            self.check()?;
        }
        Ok(())
    }

    /// Returns a failure unless the process, which has ended, was successful.
    fn check(&mut self) -> Result<(), Failure> {
        if let Some(pipe) = &mut self.child.stderr {
            read_available(pipe, &mut self.stderr);
        }
        let status = ended_with(&self.exit).map_err(|e| Failure::runner(format!("wait: {e}")))?;
        if status.success() {
            return Ok(());
        }
        let how = describe_end(status.signal(), status.code());
        let reason = last_line(&self.stderr).map_or(String::new(), |line| format!(": {line}"));
        // The statuses of a shell for a missing program and for a file that is not a program.
        let missing = matches!(status.code(), Some(126 | 127));
        let kind = if missing { FailureKind::CannotRun } else { FailureKind::Died };
        Err(Failure::new(kind, format!("{} {how}{reason}", self.line), ADVICE))
    }
}

/// Starts a process of the command, in a new process group or in `group`.
fn start(
    line: &str,
    ties: &Ties,
    group: Option<Pid>,
    command: &Command,
    job: &Job,
) -> io::Result<Child> {
    let mut words = line.split_whitespace();
    let program = words.next().unwrap_or_default();
    let in_shell = || execute("/bin/sh", ["-c", line], ties, group, command, job);
    if program.is_empty() || line.contains(|c| SHELL_CHARACTERS.contains(c)) {
        return in_shell();
    }
    match execute(program, words, ties, group, command, job) {
        // It may be a shell builtin.
        Err(error) if error.kind() == io::ErrorKind::NotFound => in_shell(),
        spawned => spawned,
    }
}

fn execute<A: AsRef<OsStr>>(
    program: &str,
    args: impl IntoIterator<Item = A>,
    ties: &Ties,
    group: Option<Pid>,
    what: &Command,
    job: &Job,
) -> io::Result<Child> {
    let mut command = process::Command::new(program);
    command
        .current_dir(&what.dir)
        .args(args)
        .env("KNEE_PADDING", "x".repeat(job.layout as usize))
        .stdin(Stdio::null())
        .stdout(if what.score == Score::Printed { Stdio::piped() } else { Stdio::null() })
        .stderr(Stdio::piped())
        .process_group(group.map_or(0, |group| group.as_raw_nonzero().get()));
    let child = spawn(&mut command, ties.clone())?;
    let (stdout, stderr) = (child.stdout.as_ref(), child.stderr.as_ref());
    for pipe in [stdout.map(AsFd::as_fd), stderr.map(AsFd::as_fd)].into_iter().flatten() {
        rustix::io::ioctl_fionbio(pipe, true)?;
    }
    Ok(child)
}
