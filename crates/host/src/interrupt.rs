//! Ctrl-C and termination as a descriptor to poll, so that an interrupted run still ends its tasks,
//! removes its files and writes its results.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicI32, Ordering};

use crate::signal::{SignalFd, is_ignored};

/// The signal that was taken last; 0 if none was.
static LAST: AtomicI32 = AtomicI32::new(0);

/// The signals that ask knee to stop, blocked and turned into a descriptor.
pub struct Interrupt(SignalFd);

impl Interrupt {
    /// Blocks SIGINT, SIGTERM and SIGHUP for the calling thread and all threads it starts later. The
    /// first call must precede the start of any other thread. Of several values, the one that takes a
    /// signal first gets it.
    pub fn install() -> io::Result<Self> {
        let signals = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP];
        // Signals that are ignored on purpose, as under nohup, stay ignored.
        SignalFd::block(signals.into_iter().filter(|&signal| !is_ignored(signal))).map(Self)
    }

    /// The signal that has arrived, if one has; each is reported once.
    pub fn take(&self) -> Option<i32> {
        let signal = self.0.take()?;
        LAST.store(signal, Ordering::Relaxed);
        Some(signal)
    }

    /// The last signal that this process has taken.
    pub fn last() -> Option<i32> {
        Some(LAST.load(Ordering::Relaxed)).filter(|&signal| signal != 0)
    }
}

impl AsFd for Interrupt {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
