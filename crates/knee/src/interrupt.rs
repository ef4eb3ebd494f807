//! Ends knee after SIGINT, SIGTERM or SIGHUP, also if the command is busy or blocked.
//!
//! A thread watches for these signals. A command that saves results polls an [`Interrupt`], and
//! ends in an orderly way. If a command does not poll, or does not notice the signal in time, the
//! thread removes temporary files and ends the process. Other processes end with it: the kernel
//! kills those that are bound to a thread of knee, and keepers end the programs of the user and remove the
//! directories of tasks.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, mpsc};
use std::time::{Duration, Instant};

use anyhow::Context;
use knee_host::Interrupt;
use knee_host::process::{exit_now, readable};
use knee_host::shell::word;
use knee_host::temporary;
use rustix::event::{self, PollFd, PollFlags, Timespec};

use crate::exit::ExitStatus;
use crate::stderr::{remove_bar, tell};
use crate::writing::is_writing;

/// How long a command that polls may take to notice a signal. It must end within a second, and may
/// need half of this time to save its results.
const NOTICE: Duration = Duration::from_millis(500);
/// How long a command may take to end after it noticed a signal. Longer than a second, because
/// on a busy machine the results are worth the wait.
const SAVE: Duration = Duration::from_secs(10);
/// How long the output of a command that noticed a signal may be blocked.
const BLOCKED: Duration = Duration::from_millis(200);
/// How long the last message may take on a busy machine.
const PRINT: Duration = Duration::from_secs(5);

/// Whether the command polls for signals.
static IS_POLLED: AtomicBool = AtomicBool::new(false);
/// The command that continues this one.
static NEXT: Mutex<Option<String>> = Mutex::new(None);

/// Starts to watch for signals. Must precede the start of any other thread.
pub(crate) fn watch() -> io::Result<()> {
    let signals = Interrupt::install()?;
    std::thread::Builder::new().name("signals".to_owned()).spawn(move || end_after(&signals))?;
    Ok(())
}

/// For a command that ends in an orderly way: reports the signals that arrive.
pub(crate) fn poll() -> anyhow::Result<Interrupt> {
    IS_POLLED.store(true, Ordering::Relaxed);
    Interrupt::install().context("cannot watch for signals")
}

/// A signal that has arrived, but that the command has not noticed.
pub(crate) fn unnoticed() -> Option<i32> {
    Interrupt::install().ok()?.take()
}

/// Sets the command that continues this one, for the message if a signal ends it.
pub(crate) fn set_next(command: String) {
    *next() = Some(command);
}

/// Like [`set_next`], for a command that this command line and `more` continue.
pub(crate) fn set_next_to_this_command(more: &str) {
    let words = std::env::args_os().skip(1).map(|arg| word(&arg).into_owned());
    set_next(format!("knee {}{more}", words.collect::<Vec<_>>().join(" ")));
}

/// The end of a message, with the command that continues this one.
pub(crate) fn and_next() -> String {
    next().as_ref().map_or(String::new(), |next| format!("; to continue: {next}"))
}

/// The message for a command that a signal ended.
pub(crate) fn message() -> String {
    message_after("")
}

/// The message for a command that a signal ended after this much work, such as `5 of 9 tests`.
pub(crate) fn message_after(done: &str) -> String {
    let after = if done.is_empty() { "" } else { " after " };
    format!("interrupted{after}{done}{}", and_next())
}

fn next() -> MutexGuard<'static, Option<String>> {
    NEXT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits for a signal, and then for the command to end. Ends the process if that takes too long.
fn end_after(signals: &Interrupt) {
    let (mut noticed, mut blocked) = (None::<Instant>, false);
    loop {
        let patience = if noticed.is_some() { BLOCKED } else { NOTICE };
        match readable([Some(signals.as_fd())], Some(Instant::now() + patience)) {
            Ok([true]) if IS_POLLED.load(Ordering::Relaxed) => std::thread::sleep(NOTICE),
            Ok(_) => {}
            Err(_) => break,
        }
        // Another signal ends a command that saves for too long.
        if signals.take().is_some() {
            break;
        }
        // The command may have taken the signal before this thread woke up.
        if Interrupt::last().is_none() {
            continue;
        }
        let is_late = noticed.get_or_insert_with(Instant::now).elapsed() >= SAVE;
        let is_blocked = is_blocked();
        if is_late || (is_blocked && blocked) {
            break;
        }
        blocked = is_blocked;
    }
    end(Interrupt::last().unwrap_or(libc::SIGTERM))
}

/// Whether a thread waits for somebody to read what it prints.
fn is_blocked() -> bool {
    let files = [rustix::stdio::stdout(), rustix::stdio::stderr()];
    is_writing() && !files.into_iter().all(is_writable)
}

/// Whether a write would not wait for a reader.
fn is_writable(file: BorrowedFd<'_>) -> bool {
    let file = PollFd::from_borrowed_fd(file, PollFlags::OUT);
    event::poll(&mut [file], Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
}

fn end(signal: i32) -> ! {
    temporary::remove_all();
    // A pipe that nobody reads would block the message forever.
    if is_writable(rustix::stdio::stderr()) {
        let (printed, is_printed) = mpsc::channel();
        std::thread::spawn(move || {
            remove_bar();
            tell!("knee: {}", message());
            printed.send(())
        });
        let _ = is_printed.recv_timeout(PRINT);
    }
    exit_now(ExitStatus::Interrupted(signal).code().into())
}
