//! Sampling a process, a command or the whole machine.

use std::ffi::OsString;
use std::os::fd::AsFd;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use knee_host::Interrupt;
use knee_host::number::plural;
use knee_host::process::{program, readable};
use knee_host::utc;
use knee_profile::sampling::Target;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::args::HowArgs;
use super::command::{Command, Ended};
use super::watch::Recorder;
use crate::exit::ExitStatus;
use crate::progress::Progress;
use crate::stderr::tell;

/// Interval between checks for due progress messages; less than a second.
const NAP: Duration = Duration::from_millis(500);

/// Samples a command until it ends or the duration is over. The command may run on.
pub(super) fn command<W: Recorder>(
    command: &[OsString],
    duration: Option<f64>,
    how: &HowArgs,
    interrupt: &Interrupt,
) -> anyhow::Result<(W::Taken, Left)> {
    require_program(command)?;
    let started_at = utc::now();
    let mut held = Command::hold(command).context("cannot start a process")?;
    let watch = W::open(&Target::Exec(held.id()), &how.options())?;
    if !how.quiet {
        watch.describe();
    }
    held.release().context("the new process ended before it could start the command")?;
    let until = duration.map(|seconds| Instant::now() + Duration::from_secs_f64(seconds));
    let words: Vec<_> = command.iter().map(|word| word.to_string_lossy()).collect();
    // The command may share the terminal.
    let mut progress = Progress::lines(how.quiet);
    let start = Instant::now();
    let ended = loop {
        match held.wait(Some(nap_until(until)), interrupt)? {
            None if until.is_none_or(|until| Instant::now() < until) => {}
            ended => break ended,
        }
        watch.show(&mut progress, start.elapsed().as_secs_f64(), duration);
    };
    let taken = watch.finish(words.join(" "), started_at, None)?;
    Ok((taken, Left::Command { command: held, ended }))
}

/// Returns an error if the program of a command does not exist. Otherwise, there would be a capture
/// without samples.
fn require_program(command: &[OsString]) -> anyhow::Result<()> {
    let Some(name) = command.first() else { return Ok(()) };
    let path = Path::new(name);
    let is_found = match path.components().count() {
        1 => name.to_str().is_none_or(|name| program::find(name).is_some()),
        _ => path.is_file(),
    };
    ensure!(is_found, "cannot start {}: no program has this name", path.display());
    Ok(())
}

/// The remaining work after the capture is written.
pub(super) enum Left {
    /// knee exits with this status.
    Nothing(ExitStatus),
    /// Wait for a command that may still run.
    Command { command: Command, ended: Option<Ended> },
}

impl Left {
    /// Does the remaining work, and returns the exit status.
    pub(super) fn end(self, interrupt: &Interrupt) -> anyhow::Result<ExitStatus> {
        let (mut command, ended) = match self {
            Left::Nothing(status) => return Ok(status),
            Left::Command { command, ended } => (command, ended),
        };
        let ended = match ended {
            Some(ended) => Some(ended),
            None => command.wait(None, interrupt)?,
        };
        let ended = ended.expect("without a deadline, `wait` returns only when the command ends");
        Ok(command.end(ended))
    }
}

/// Samples a process or the whole machine until it ends, the duration is over, or Ctrl-C.
pub(super) fn running<W: Recorder>(
    target: &Target,
    duration: Option<f64>,
    how: &HowArgs,
    interrupt: &Interrupt,
) -> anyhow::Result<(W::Taken, Left)> {
    let started_at = utc::now();
    let mut watch = W::open(target, &how.options())?;
    watch.enable()?;
    let descendants = match target {
        Target::Trees(_) => watch.running().saturating_sub(1),
        Target::System | Target::Process(_) | Target::Exec(_) => 0,
    };
    let title = title(target, descendants);
    if !how.quiet {
        watch.describe();
        if target.pid().is_some() {
            let they_start = if descendants == 0 { "it starts" } else { "they start" };
            tell!("knee: sampling {title}, and the processes that {they_start} later");
        }
    }
    let (mut progress, start) = (Progress::new(how.quiet), Instant::now());
    let signal = wait(target, duration, interrupt, || {
        watch.show(&mut progress, start.elapsed().as_secs_f64(), duration);
    })?;
    drop(progress);
    let status = signal.map_or(ExitStatus::Done, ExitStatus::Interrupted);
    Ok((watch.finish(title, started_at, None)?, Left::Nothing(status)))
}

/// What is sampled, if the process had this many descendants at first.
fn title(target: &Target, descendants: usize) -> String {
    match target {
        Target::System => "all CPUs".to_owned(),
        Target::Process(pid) | Target::Exec(pid) => format!("process {pid}"),
        Target::Trees(pids) => {
            let process =
                pids.iter().map(|pid| format!("process {pid}")).collect::<Vec<_>>().join(" and ");
            match descendants {
                0 => process,
                _ => format!("{process} with {}", plural(descendants, "descendant")),
            }
        }
    }
}

/// The time of the next message, or `until` if that is earlier.
fn nap_until(until: Option<Instant>) -> Instant {
    let next = Instant::now() + NAP;
    until.map_or(next, |until| until.min(next))
}

/// Waits for the end of sampling, and calls `going_on` twice a second. Returns the signal that ended the
/// sampling, if any.
fn wait(
    target: &Target,
    duration: Option<f64>,
    interrupt: &Interrupt,
    mut going_on: impl FnMut(),
) -> anyhow::Result<Option<i32>> {
    let exit = match target.pid() {
        Some(pid) => {
            let pid = Pid::from_raw(pid).context("no process has this number")?;
            Some(pidfd_open(pid, PidfdFlags::empty()).context("cannot watch the process")?)
        }
        None => None,
    };
    let until = duration.map(|seconds| Instant::now() + Duration::from_secs_f64(seconds));
    while until.is_none_or(|until| Instant::now() < until) {
        let watched = [Some(interrupt.as_fd()), exit.as_ref().map(AsFd::as_fd)];
        if readable(watched, Some(nap_until(until))).context("cannot wait")?.contains(&true) {
            break;
        }
        going_on();
    }
    Ok(interrupt.take())
}
