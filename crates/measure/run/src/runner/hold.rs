//! Holds new tasks until all of them exist and their counters are open.

use std::io;
use std::os::fd::OwnedFd;

use rustix::pipe::{PipeFlags, pipe_with};

/// Dropping it in the runner releases the tasks.
pub(super) struct Hold {
    read: OwnedFd,
    write: OwnedFd,
}

impl Hold {
    /// To be created before the tasks, which inherit it.
    pub(super) fn new() -> io::Result<Self> {
        let (read, write) = pipe_with(PipeFlags::CLOEXEC)?;
        Ok(Self { read, write })
    }

    /// Waits in a task until the runner and all other tasks have closed their end for writing.
    pub(super) fn wait(self) {
        drop(self.write);
        // At the end of the pipe there is nothing to read.
        while rustix::io::read(&self.read, &mut [0]).is_err() {}
    }
}
