//! The readers of the process, in which each thread registers at its first use.

use super::readers::{Reader, Readers, Threads};
use crate::per_thread::{Part, per_thread};
use crate::system::System;

static READERS: Readers = Readers::new();

per_thread!(Reader<'static>, in_child: forked);

impl Part for Reader<'static> {
    fn register() -> Self {
        READERS.register(&System::detect())
    }

    fn unregister(self) -> bool {
        // Fails if a guard was leaked, or if a later destructor of the thread still has one. SAFETY: this
        // is the registered thread, and `self` was its only copy.
        unsafe { self.unregister() }
    }
}

/// The threads of this process.
#[derive(Debug)]
pub struct ThisProcess(());

// SAFETY: only the thread that registered uses its reader, until it exits without a lock. membarrier(2)
// reaches all threads of the process.
unsafe impl Threads for ThisProcess {
    type Platform = System;

    fn platform() -> System {
        System::detect()
    }

    fn readers() -> &'static Readers {
        &READERS
    }

    #[inline]
    fn reader() -> Option<Reader<'static>> {
        part()
    }
}

/// Frees the slots of missing threads in the child of a fork.
#[cfg(all(unix, not(any(loom, miri))))]
extern "C" fn forked() {
    READERS.forked(registered());
}
