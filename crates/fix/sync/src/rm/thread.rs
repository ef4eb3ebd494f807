//! The process's threads.

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
        // Somebody may have forgotten a guard, or another destructor of the thread has one yet.
        // SAFETY: this is the thread, and the part was its only copy.
        unsafe { self.unregister() }
    }
}

/// The threads of this process.
#[derive(Debug)]
pub struct ThisProcess(());

// SAFETY: a reader belongs to the thread that has joined, until that is about to exit and reads
// nothing. membarrier(2) reaches all threads of the process.
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

/// In the child of a fork: the other threads are not there, and read nothing.
#[cfg(all(unix, not(any(loom, miri))))]
extern "C" fn forked() {
    READERS.forked(registered());
}
