//! A machine that runs jobs.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use knee_host::process::{Ties, last_line, readable, spawn, wait_readable};
use knee_host::signal::describe_end;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

/// How long a job may take to end after its standard input is closed. The script kills it after two seconds.
const END_PATIENCE: Duration = Duration::from_secs(5);

/// A machine, or one of several connections to it.
pub(super) trait Machine: Sync {
    /// Its name for people.
    fn name(&self) -> &str;

    /// How many jobs it runs at a time.
    fn seats(&self) -> usize;

    /// Begins to leave the machine, which takes a while, so that several can be left at the same time.
    fn leave(&mut self) {}

    /// Runs a job until it ends, or until `stop` is closed. If the job has ended, the directory contains its
    /// status. Otherwise, the returned message of the program that ran the job explains why not.
    ///
    /// # Errors
    /// The machine cannot run jobs.
    fn run(&self, job: usize, stop: BorrowedFd<'_>) -> anyhow::Result<String>;
}

/// Runs a process that ends if its standard input is closed, and closes the input if `stop` is closed. Returns
/// the last message of the process.
///
/// The process gets a group of its own, so that Ctrl-C does not reach it. Nothing binds it to this process: if
/// this process is killed, its end of the pipe is closed as well.
pub(super) fn run_tied(command: &mut Command, stop: BorrowedFd<'_>) -> io::Result<String> {
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped()).process_group(0);
    let mut child = spawn(command, Ties { resets_signals: true, ..Ties::default() })?;
    let stdin = child.stdin.take();
    let has_ended = ends_before(&child, stop)?;
    drop(stdin);
    if !has_ended && !ends_within(&child, END_PATIENCE)? {
        let _ = child.kill();
    }
    let output = child.wait_with_output()?;
    let end = || describe_end(output.status.signal(), output.status.code());
    Ok(last_line(&output.stderr).unwrap_or_else(end))
}

/// Waits until a child has ended, but not longer than `patience`. Returns whether it has ended.
pub(super) fn ends_within(child: &Child, patience: Duration) -> io::Result<bool> {
    let exit = pidfd_open(Pid::from_child(child), PidfdFlags::empty())?;
    Ok(wait_readable(exit, patience))
}

/// Waits until a child has ended, or until `stop` is closed. Returns whether the child has ended.
pub(super) fn ends_before(child: &Child, stop: BorrowedFd<'_>) -> io::Result<bool> {
    let exit = pidfd_open(Pid::from_child(child), PidfdFlags::empty())?;
    let [has_ended, _] = readable([Some(exit.as_fd()), Some(stop)], None)?;
    Ok(has_ended)
}
