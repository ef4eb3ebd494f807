//! The readers of the process. A thread registers when it first takes an `RmLock` for reading.

use std::mem::ManuallyDrop;

use super::readers::{Reader, Readers, Threads};
use super::slots::Slots;
use crate::per_thread::{Part, per_thread};
use crate::registry::Node;
use crate::system::System;

static READERS: Readers = Readers::new();

per_thread!(Member, in_child: forked);

/// A registered thread, represented by the node of its `Reader`. A reference to the node is `Copy`, so a
/// `Cell` can hold it.
#[derive(Clone, Copy)]
struct Member(&'static Node<Slots>);

impl Part for Member {
    fn register() -> Member {
        Member(READERS.register(&System::detect()).into_node())
    }

    fn unregister(self) -> bool {
        // The thread may still have a read lock, because it leaked a guard, or because one of its later
        // destructors will drop the guard. In that case the thread stays registered.
        let is_idle = self.0.value.is_idle();
        if is_idle {
            // SAFETY: the node came from `into_node` in `register`, and no copy of it is used after this.
            drop(unsafe { Reader::from_node(self.0) });
        }
        is_idle
    }
}

/// The threads of this process.
#[derive(Debug)]
pub struct ThisProcess(());

// SAFETY: a thread-local variable holds the thread's reader until the thread unregisters at its exit. A
// thread that still has a lock at its exit never unregisters. Signal handlers must not use the locks.
// membarrier(2) reaches all threads of the process.
unsafe impl Threads for ThisProcess {
    type Platform = System;

    fn platform() -> System {
        System::detect()
    }

    fn readers() -> &'static Readers {
        &READERS
    }

    #[inline]
    fn with_reader<R>(with: impl FnOnce(Option<&Reader<'static>>) -> R) -> R {
        // SAFETY: the node came from `into_node` in `register`, and only its thread has copies of it. The
        // new reader is not dropped.
        let reader =
            part().map(|Member(node)| ManuallyDrop::new(unsafe { Reader::from_node(node) }));
        with(reader.as_deref())
    }
}

/// Runs in the child of a fork: frees the slots of all threads that exist only in the parent.
#[cfg(all(unix, not(any(loom, miri))))]
extern "C" fn forked() {
    READERS.forked(registered().map(|Member(node)| node));
}
