//! The slots of the process's threads.

use super::slots::Slots;
use crate::per_thread::{Part, per_thread};
use crate::platform::Platform;
use crate::registry::{Node, Registry};
use crate::system::System;

/// The slots of all threads.
pub(super) static READERS: Registry<Slots> = Registry::new();

per_thread!(&'static Node<Slots>);

impl Part for &'static Node<Slots> {
    fn join() -> Self {
        READERS.take_or_make(|| Slots::new(System::detect().is_symmetric()))
    }

    fn leave(self) -> bool {
        // Somebody has forgotten a guard, or another destructor of the thread has one yet: then the
        // slots are this thread's for ever, and the locks are locked as the guards say.
        let is_idle = self.value.is_idle();
        if is_idle {
            self.release();
        }
        is_idle
    }
}

/// The slots of this thread; none if the thread is about to exit and has given them back.
#[inline]
pub(super) fn slots() -> Option<&'static Slots> {
    part().map(|node| &node.value)
}

/// In the child of a fork: the other threads are not there, and read nothing.
#[cfg(all(unix, not(any(loom, miri))))]
pub(crate) fn forked() {
    for node in READERS.others(joined()) {
        node.value.forget();
        node.release();
    }
}
