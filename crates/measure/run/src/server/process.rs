//! A process of a server testcase: the server itself, a command before the load, or the load.

use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use knee_host::Interrupt;
use knee_host::counters::CounterSet;
use knee_host::process::keeper::{Kept, Prepared, Program};
use knee_host::process::{any_readable, family, wait_readable};
use knee_host::signal::describe_end;
use knee_host::ssh::MOST_BYTES;
use knee_results::Counts;
use rustix::io::ioctl_fionbio;
use rustix::process::Signal;

use super::{output, tree};
use crate::account::CountedEvents;
use crate::job::{Failure, FailureKind};
use crate::stopped::Stopped;

/// How much of the end of the output to keep, on this machine.
const TAIL_BYTES: usize = 64 << 10;
/// How many of its last lines a failure shows.
const LAST_LINES: usize = 3;
/// How much of each of them, in characters.
const LONGEST_LINE: usize = 1000;
/// The exit status of ssh if it fails itself.
const SSH_FAILED: i32 = 255;
/// How long a process may take to end if its result is no longer wanted.
const END_PATIENCE: Duration = Duration::from_millis(500);

/// A started process. Dropping it ends the process with all of its descendants.
pub(super) struct Process {
    /// What it is for, such as `the server`.
    role: &'static str,
    /// Its command line; empty for the connection to a host.
    pub(super) line: String,
    /// The host on which it runs, if that is not this machine.
    host: Option<String>,
    /// The end of its standard output.
    pub(super) stdout: Vec<u8>,
    stderr: Vec<u8>,
    /// How many bytes of the end of its output are kept.
    tail: usize,
    kept: Kept,
    /// The events of it and its descendants, if they are counted.
    counted: Option<CountedEvents>,
    /// The signal that asks it to end.
    signal: Signal,
    /// Whether it was asked.
    is_asked: bool,
    end: Option<ExitStatus>,
}

impl Process {
    /// Starts `program`, which runs `line`, for the purpose `role`, and counts its `counters`.
    ///
    /// # Errors
    /// No process can be started, or the kernel refuses a counter.
    pub(super) fn start(
        role: &'static str,
        line: String,
        program: Program,
        counters: Option<&CounterSet>,
        signal: Signal,
    ) -> Result<Self, Failure> {
        let failed = |error: io::Error| refused(role, &line, &error);
        let kept = program.prepare().and_then(Prepared::held).map_err(failed)?;
        let counted = CountedEvents::of_programs(counters, &[kept.id()])?;
        kept.release().map_err(failed)?;
        let (stdout, stderr) = (Vec::new(), Vec::new());
        let (host, tail, is_asked, end) = (None, TAIL_BYTES, false, None);
        Ok(Self { role, line, host, stdout, stderr, tail, kept, counted, signal, is_asked, end })
    }

    /// Starts `program`, an ssh that runs `line` on `host`. Closing its standard input asks it to end.
    ///
    /// # Errors
    /// No process can be started.
    pub(super) fn on_host(
        role: &'static str,
        line: String,
        host: &str,
        program: Program,
    ) -> Result<Self, Failure> {
        let mut started = Self::start(role, line, program, None, Signal::TERM)?;
        (started.host, started.tail) = (Some(host.to_owned()), MOST_BYTES);
        Ok(started)
    }

    /// Writes to its standard input, which is a pipe and stays open.
    ///
    /// # Errors
    /// The pipe is full. It usually takes 64 KiB at once (`pipe-user-pages-soft`).
    pub(super) fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        let Some(stdin) = &mut self.kept.stdin else { return Ok(()) };
        // A host that reads nothing must not block knee.
        ioctl_fionbio(&*stdin, true)?;
        stdin.write_all(bytes)
    }

    /// The events of the process and its descendants since the last call; `None` if they are not counted.
    pub(super) fn counts_since_last(&mut self) -> Option<Counts> {
        self.counted.as_mut().map(CountedEvents::since_last)
    }

    /// CPU seconds of the process and its descendants.
    pub(super) fn cpu_seconds(&self) -> f64 {
        tree::cpu_seconds(self.root())
    }

    /// The process whose descendants are this one and all that it has started. A daemon is a child of the
    /// keeper.
    pub(super) fn root(&self) -> i32 {
        let [_, keeper] = self.kept.processes();
        keeper.as_raw_pid()
    }

    /// The process and its descendants.
    pub(super) fn processes(&self) -> impl Iterator<Item = i32> + use<> {
        let [_, keeper] = self.kept.processes();
        family(keeper.as_raw_pid()).into_iter().map(|(pid, _)| pid)
    }

    /// How the process ended, if it has.
    pub(super) fn end(&self) -> Option<ExitStatus> {
        self.end
    }

    /// Whether it may have printed more than what is kept.
    pub(super) fn has_lost_output(&self) -> bool {
        self.stdout.len() >= self.tail
    }

    /// Whether its output contains `text`.
    pub(super) fn has_printed(&self, text: &str) -> bool {
        let contains = |output: &[u8]| String::from_utf8_lossy(output).contains(text);
        contains(&self.stdout) || contains(&self.stderr)
    }

    /// A failure of this process, with the last lines of its output: ``the server `redis-server` WHAT; the server printed: …``.
    pub(super) fn failure(&self, kind: FailureKind, what: &str, remedy: &str) -> Failure {
        let line = match self.line.trim() {
            "" => String::new(),
            line => format!(" `{line}`"),
        };
        let host = match &self.host {
            Some(host) if line.is_empty() => format!(" {host}"),
            Some(host) => format!(" on {host}"),
            None => String::new(),
        };
        let printed = match self.last_words() {
            words if words.is_empty() => words,
            words => format!("; {} printed{words}", self.role),
        };
        Failure::new(kind, format!("{}{line}{host} {what}{printed}", self.role), remedy)
    }

    /// `failure` of what depends on this process, with the last lines of its output.
    pub(super) fn explained(&self, failure: Failure) -> Failure {
        match self.last_words() {
            words if words.is_empty() => failure,
            words => {
                let reason = format!("{}; {} printed{words}", failure.reason, self.role);
                Failure { reason, ..failure }
            }
        }
    }

    /// The failure of a process that has ended, `when`.
    pub(super) fn death(&self, when: &str, remedy: &str) -> Failure {
        let end = self.end.map_or("died".to_owned(), |end| describe_end(end.signal(), end.code()));
        let is_of_ssh =
            self.host.is_some() && self.end.and_then(|end| end.code()) == Some(SSH_FAILED);
        let end = if is_of_ssh { end + " (as ssh does if the connection breaks)" } else { end };
        let code = self.end.and_then(|end| end.code());
        let kind = FailureKind::of_command(code);
        let remedy = match code {
            // A shell returns this status for a program that it does not find.
            Some(127) => "install the program, or correct the command in the description",
            _ => remedy,
        };
        self.failure(kind, format!("{end} {when}").trim_end(), remedy)
    }

    /// What the load on another host printed itself. `None` if it has not begun.
    pub(super) fn output_of_load(&self) -> Option<&[u8]> {
        output::of_load(&self.stdout, self.has_lost_output())
    }

    /// `: LINE | LINE`, the last lines of its error output, after those of its output if there is room for them.
    fn last_words(&self) -> String {
        let stdout = match &self.host {
            // Without the lines of the script that runs the load.
            Some(_) => match self.output_of_load() {
                None if !self.stderr.is_empty() => &[],
                output => output.unwrap_or(&self.stdout),
            },
            None => &self.stdout[..],
        };
        let [errors, text] = [&self.stderr[..], stdout].map(String::from_utf8_lossy);
        let lines = errors.lines().rev().chain(text.lines().rev());
        let lines = lines.map(str::trim).filter(|line| !line.is_empty());
        let beginning = |line: &str| line.chars().take(LONGEST_LINE).collect::<String>();
        let mut lines: Vec<String> = lines.take(LAST_LINES).map(beginning).collect();
        lines.reverse();
        let words = lines.join(" | ");
        match &self.host {
            _ if words.is_empty() => words,
            Some(_) => format!(": {}", output::quoted(&words)),
            None => format!(": {words}"),
        }
    }

    /// Asks the process to end, waits for it at most `patience`, and then kills it. Returns the names of the programs
    /// that it killed then, one for each process.
    ///
    /// # Errors
    /// A signal asked knee to stop.
    pub(super) fn stop(
        mut self,
        patience: Duration,
        interrupt: &Interrupt,
    ) -> Result<Vec<String>, Stopped> {
        self.ask();
        let until = Instant::now() + patience;
        while self.end.is_none() && Instant::now() < until {
            watch(&mut [&mut self], until, interrupt)?;
        }
        if self.end.is_some() {
            return Ok(Vec::new());
        }
        let keeper = self.root();
        let killed = family(keeper).into_iter().filter(|(pid, _)| *pid != keeper);
        Ok(killed.map(|(_, stat)| stat.name).collect())
    }

    fn ask(&mut self) {
        self.is_asked = true;
        if self.kept.stdin.take().is_none() {
            // It may just have ended.
            let _ = self.kept.signal(self.signal);
        }
    }

    /// What to wait for: its end, and its output.
    fn watched(&self) -> [Option<BorrowedFd<'_>>; 3] {
        let [stdout, stderr] = self.kept.pipes();
        [self.end.is_none().then(|| self.kept.exit()), stdout, stderr]
    }

    /// Reads what can be read. `ended` says whether the process has ended.
    fn follow(&mut self, ended: bool) -> Result<(), Failure> {
        self.kept.read_tails(&mut self.stdout, &mut self.stderr, self.tail);
        if ended {
            let end = self.kept.exit_status();
            self.end = Some(end.map_err(|error| match &self.host {
                Some(_) => no_ssh(&error),
                None => refused(self.role, &self.line, &error),
            })?);
        }
        Ok(())
    }
}

/// Lets the process end by itself, before its keeper kills what is left.
impl Drop for Process {
    fn drop(&mut self) {
        if self.end.is_none() && !self.is_asked {
            self.ask();
            wait_readable(self.kept.exit(), END_PATIENCE);
        }
    }
}

/// The failure of a process that cannot be started.
fn refused(role: &str, line: &str, error: &io::Error) -> Failure {
    let reason = format!("cannot start {role} {line}: {error}");
    let remedy = "commands run in a private directory; write {here}/PROGRAM for a program beside the \
                  description";
    Failure::new(FailureKind::CannotRun, reason, remedy)
}

/// The failure of ssh that cannot be started.
fn no_ssh(error: &io::Error) -> Failure {
    let remedy = "install it (apt-get install openssh-client)";
    Failure::new(FailureKind::CannotRun, format!("cannot start ssh: {error}"), remedy)
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
            process.follow(ready[0])?;
        }
    }
    Ok(())
}
