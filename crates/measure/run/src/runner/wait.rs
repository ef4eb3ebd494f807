//! One sleep for all events of a runner.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::time::{Duration, Instant};

use knee_host::clock::timespec;
use knee_host::process::wait_readable;
use knee_host::signal::SignalFd;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;

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
            let left = deadline.saturating_duration_since(Instant::now());
            let mut fds = vec![
                PollFd::new(&self.input, PollFlags::IN),
                PollFd::new(&self.signals, PollFlags::IN),
            ];
            fds.extend(bell.as_ref().map(|bell| PollFd::new(bell, PollFlags::IN)));
            match poll(&mut fds, Some(&timespec(left))) {
                Ok(0) => return Wake::Time,
                Err(Errno::INTR) => continue,
                Err(_) => return Wake::Stop,
                Ok(_) => {}
            }
            if !fds[0].revents().is_empty() {
                return Wake::Stop;
            }
            if !fds[1].revents().is_empty() {
                match self.signals.take() {
                    Some(libc::SIGCHLD) => return Wake::Child,
                    Some(_) => return Wake::Stop,
                    None => continue,
                }
            }
            return Wake::Time;
        }
    }
}
