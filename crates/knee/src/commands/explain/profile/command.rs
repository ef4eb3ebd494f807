//! A command that `knee profile` runs on knee's terminal.

use std::ffi::OsString;
use std::io::{self, IsTerminal};
use std::os::fd::AsFd;
use std::os::unix::process::ExitStatusExt;
use std::time::{Duration, Instant};

use knee_host::Interrupt;
use knee_host::process::keeper::{Kept, Program};
use knee_host::process::readable;
use rustix::process::Signal;

use crate::exit::ExitStatus;
use crate::present::left_running;
use crate::stderr::tell;

/// How long an interrupted command may take to end; then it is killed.
const END_PATIENCE: Duration = Duration::from_millis(500);
/// The status that a shell returns for a command that it cannot start.
const NOT_STARTED: i32 = 127;

/// A command, held before it runs. Dropping it kills the command and its descendants.
pub(super) struct Command {
    kept: Kept,
    /// The signal that interrupted the wait and made knee end the command, and when the command is
    /// killed.
    asked: Option<(i32, Instant)>,
}

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ended {
    /// It exited, with the status that a shell returns for it.
    Itself(i32),
    /// This signal told knee to stop, and knee ended the command.
    Interrupted(i32),
}

impl Command {
    pub(super) fn hold(words: &[OsString]) -> io::Result<Self> {
        let kept = Program::new(words).on_terminal().prepare()?.held()?;
        Ok(Self { kept, asked: None })
    }

    /// The process ID.
    pub(super) fn id(&self) -> i32 {
        self.kept.id().as_raw_pid()
    }

    pub(super) fn release(&self) -> io::Result<()> {
        self.kept.release()
    }

    /// Waits until the command has ended, or `until`. An interrupt asks the command to end. If the
    /// command does not end soon, or after a second interrupt, it is killed when this value is dropped.
    pub(super) fn wait(
        &mut self,
        until: Option<Instant>,
        interrupt: &Interrupt,
    ) -> io::Result<Option<Ended>> {
        loop {
            let watched = [Some(self.kept.exit()), Some(interrupt.as_fd())];
            let killed = self.asked.map(|(_, killed)| killed);
            let [ended, interrupted] = readable(watched, until.into_iter().chain(killed).min())?;
            match self.asked {
                None if ended => return Ok(Some(Ended::Itself(self.shell_status()))),
                // It has ended, or a second interrupt or the end of its time makes knee kill it.
                Some((signal, killed)) if ended || interrupted || Instant::now() >= killed => {
                    let _ = interrupt.take();
                    return Ok(Some(Ended::Interrupted(signal)));
                }
                _ if !interrupted => return Ok(None),
                _ => {}
            }
            if let Some(signal) = interrupt.take() {
                self.asked = Some((signal, Instant::now() + END_PATIENCE));
                // The terminal has sent Ctrl-C to the command as well.
                let has_it = signal == libc::SIGINT && io::stdin().is_terminal();
                if let Some(signal) = Signal::from_named_raw(signal).filter(|_| !has_it) {
                    let _ = self.kept.signal(signal);
                }
            }
        }
    }

    /// The status that a shell returns for the command, which has ended.
    fn shell_status(&mut self) -> i32 {
        match self.kept.exit_status() {
            Ok(status) => {
                status.code().or(status.signal().map(|signal| 128 + signal)).unwrap_or(NOT_STARTED)
            }
            Err(error) => {
                tell!("knee: cannot start the command: {error}");
                NOT_STARTED
            }
        }
    }

    /// Ends the descendants of the command, which has ended in this way, and reports them. Returns the exit
    /// status of knee.
    pub(super) fn end(self, ended: Ended) -> ExitStatus {
        match ended {
            Ended::Itself(status) => {
                let left = self.kept.end().map(|end| end.left).unwrap_or_default();
                if let Some(note) = left_running::of_command(&left) {
                    tell!("knee: {note}");
                }
                ExitStatus::OfCommand(status)
            }
            Ended::Interrupted(signal) => ExitStatus::Interrupted(signal),
        }
    }
}
