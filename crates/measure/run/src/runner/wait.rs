//! One sleep for all events of a runner.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::time::{Duration, Instant};

use knee_host::process::{readable, wait_readable};
use knee_host::signal::SignalFd;

use crate::job::{Event, Job};

/// Why the runner woke up.
pub(super) enum Wake {
    /// The time is up, or the bell rang.
    Time,
    /// A child has died.
    Child,
    /// knee has exited, no longer wants the result, or sent a signal.
    Stop,
}

/// The connection to knee: the job arrives on it, events leave on it, and its end is detected.
pub(super) struct Link {
    input: File,
    events: File,
    signals: SignalFd,
}

impl Link {
    /// Takes over standard input and output, so that nothing a testcase prints can be mistaken
    /// for an event, and reads the job.
    pub(super) fn open() -> io::Result<(Self, Job)> {
        let input = File::from(rustix::io::fcntl_dupfd_cloexec(io::stdin(), 3)?);
        let events = File::from(rustix::io::fcntl_dupfd_cloexec(io::stdout(), 3)?);
        let mut line = Vec::new();
        BufReader::new(&input).read_until(b'\n', &mut line)?;
        if !line.ends_with(b"\n") {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "no job on its input"));
        }
        let job = serde_json::from_slice(&line)?;
        rustix::stdio::dup2_stdout(io::stderr())?;
        rustix::stdio::dup2_stdin(File::open("/dev/null")?)?;
        // Tasks unblock them again.
        let signals = SignalFd::block([libc::SIGCHLD, libc::SIGINT, libc::SIGTERM, libc::SIGHUP])?;
        Ok((Self { input, events, signals }, job))
    }

    /// Sends one event. A knee that has exited is detected elsewhere.
    pub(super) fn send(&mut self, event: &Event) {
        let mut line = serde_json::to_vec(event).expect("an event is plain data");
        line.push(b'\n');
        let _ = self.events.write_all(&line);
    }

    /// The descriptors that tasks must close.
    pub(super) fn event_fd(&self) -> RawFd {
        self.events.as_raw_fd()
    }

    /// Whether the input has been closed.
    pub(super) fn parent_is_gone(&self) -> bool {
        wait_readable(&self.input, Duration::ZERO)
    }

    /// Sleeps until `deadline`, until something happens, or until `bell` becomes readable.
    pub(super) fn wait(&mut self, deadline: Instant, bell: Option<BorrowedFd<'_>>) -> Wake {
        loop {
            let watched = [Some(self.input.as_fd()), Some(self.signals.as_fd()), bell];
            match readable(watched, Some(deadline)) {
                Err(_) | Ok([true, ..]) => return Wake::Stop,
                Ok([_, true, _]) => match self.signals.take() {
                    Some(libc::SIGCHLD) => return Wake::Child,
                    Some(_) => return Wake::Stop,
                    None => {}
                },
                Ok(_) => return Wake::Time,
            }
        }
    }
}
