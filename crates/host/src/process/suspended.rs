//! A command that is suspended before its first instruction, so that a caller can attach to its
//! process before it runs.
//!
//! The process is knee itself, which waits for a byte from a pipe and then executes the command.

use std::ffi::OsString;
use std::io::{self, IsTerminal, PipeReader, PipeWriter, Read, Write};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitStatus};
use std::time::{Duration, Instant};

use rustix::io::{FdFlags, fcntl_getfd, fcntl_setfd};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};

use super::start::{Tied, Ties, exec, spawn};
use super::{ended_with, readable};
use crate::interrupt::Interrupt;

/// The hidden subcommand of knee that waits and then becomes another program.
pub const SUBCOMMAND: &str = "held";

/// How long an interrupted command may take to end; then it is killed.
const END_PATIENCE: Duration = Duration::from_millis(500);
/// The status that a shell returns for a command that it cannot find.
const NOT_FOUND: i32 = 127;

/// A suspended command. Dropping it kills the command, whether it has begun or not.
#[derive(Debug)]
pub struct Held {
    child: Tied,
    release: Option<PipeWriter>,
    /// The signal that interrupted the wait and made knee end the command, and when the command is
    /// killed.
    asked: Option<(i32, Instant)>,
}

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// It exited.
    Itself(ExitStatus),
    /// This signal told knee to stop, and knee ended the command.
    Interrupted(i32),
}

impl Held {
    /// Starts a process that will become a command, with knee's own input and output. The process ends
    /// with the thread that calls this.
    ///
    /// # Errors
    /// No process can be started.
    pub fn start(command: &[OsString]) -> io::Result<Held> {
        let (wait, release) = io::pipe()?;
        // The child finds it by its number.
        fcntl_setfd(&wait, fcntl_getfd(&wait)? - FdFlags::CLOEXEC)?;
        let mut knee = Command::new("/proc/self/exe");
        knee.arg0("knee").arg(SUBCOMMAND).arg(wait.as_raw_fd().to_string()).args(command);
        let child = Tied(spawn(&mut knee, Ties::bound())?);
        Ok(Held { child, release: Some(release), asked: None })
    }

    /// The process ID.
    pub fn id(&self) -> i32 {
        self.child.0.id().cast_signed()
    }

    /// Lets the process execute the command.
    ///
    /// # Errors
    /// The process has exited.
    pub fn release(&mut self) -> io::Result<()> {
        self.release.take().map_or(Ok(()), |mut pipe| pipe.write_all(b"!"))
    }

    /// Waits until the command has ended, or `until`. An interrupt asks the command to end. If the
    /// command does not end soon, or after a second interrupt, it is killed when this value is dropped.
    /// The command is not reaped before that, so its process ID and its files in /proc remain.
    ///
    /// # Errors
    /// The process cannot be waited for.
    pub fn wait(
        &mut self,
        until: Option<Instant>,
        interrupt: &Interrupt,
    ) -> io::Result<Option<Ended>> {
        let pid = Pid::from_child(&self.child.0);
        let exit = pidfd_open(pid, PidfdFlags::empty())?;
        loop {
            let watched = [Some(exit.as_fd()), Some(interrupt.as_fd())];
            let killed = self.asked.map(|(_, killed)| killed);
            let [ended, interrupted] = readable(watched, until.into_iter().chain(killed).min())?;
            match self.asked {
                None if ended => return Ok(Some(Ended::Itself(ended_with(&exit)?))),
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
                    let _ = kill_process(pid, signal);
                }
            }
        }
    }
}

/// The status with which a shell reports how a command ended.
pub fn shell_status(status: ExitStatus) -> i32 {
    status.code().or(status.signal().map(|signal| 128 + signal)).unwrap_or(NOT_FOUND)
}

/// The main function of the waiting process. Returns only if it cannot become the command.
pub fn main() -> i32 {
    let mut words = std::env::args_os().skip(2);
    let pipe = words.next().and_then(|fd| fd.to_str()?.parse().ok());
    let (Some(pipe), Some(program)) = (pipe, words.next()) else {
        eprintln!("knee {SUBCOMMAND} is internal to knee profile; do not start it by hand");
        return 2;
    };
    // SAFETY: the parent left the descriptor open for this process, and nothing else here uses it.
    let mut pipe = PipeReader::from(unsafe { OwnedFd::from_raw_fd(pipe) });
    let mut byte = [0];
    if !matches!(pipe.read(&mut byte), Ok(1)) {
        // The process that suspended the command has exited.
        return 1;
    }
    drop(pipe);
    let error = exec(Command::new(&program).args(words));
    eprintln!("knee: cannot start {}: {error}", program.display());
    NOT_FOUND
}
