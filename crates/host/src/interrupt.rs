//! Ctrl-C and termination as a descriptor to poll, so that an interrupted run still ends its tasks,
//! removes its files and writes its results.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use crate::signal::{SignalFd, is_ignored};

/// The signals that ask knee to stop, blocked and turned into a descriptor.
pub struct Interrupt(SignalFd);

impl Interrupt {
    /// Blocks SIGINT, SIGTERM and SIGHUP for the calling thread and all threads it starts later.
    /// Call it once, before any other thread exists.
    pub fn install() -> io::Result<Self> {
        let signals = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP];
        // Signals that are ignored on purpose, as under nohup, stay ignored.
        SignalFd::block(signals.into_iter().filter(|&signal| !is_ignored(signal))).map(Self)
    }

    /// The signal that has arrived, if one has; each is reported once.
    pub fn take(&self) -> Option<i32> {
        self.0.take()
    }
}

impl AsFd for Interrupt {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
