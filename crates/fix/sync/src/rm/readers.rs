//! All threads that may read.

use core::ptr::NonNull;

use super::slots::{Slot, Slots};
use crate::platform::Platform;
use crate::primitive::constant;
use crate::registry::{Node, Registry};

/// The threads of a system that read locks without a trace on the locks.
#[derive(Debug)]
pub struct Readers(Registry<Slots>);

/// A thread of [`Readers`].
#[derive(Debug, Clone, Copy)]
pub struct Reader<'a>(&'a Node<Slots>);

impl Readers {
    constant! {
        /// No threads.
        pub fn new() -> Readers {
            Readers(Registry::new())
        }
    }

    /// A new thread, with a node of the embedder's.
    ///
    /// # Safety
    /// The node has not been given to readers before, stays where it is for as long as they
    /// are, and nobody has it exclusively.
    pub unsafe fn join_in(&self, node: NonNull<Node<Slots>>) -> Reader<'_> {
        // SAFETY: the caller says so.
        Reader(unsafe { self.0.add(node) })
    }

    /// A new thread with the node of one that has left; none if there is none.
    pub fn join_again(&self) -> Option<Reader<'_>> {
        self.0.take().map(Reader)
    }

    /// A new thread.
    #[cfg(feature = "alloc")]
    pub fn join(&self, platform: &impl Platform) -> Reader<'_> {
        Reader(self.0.take_or_make(|| Slots::new(platform)))
    }

    /// What a writer looks through.
    pub(super) fn slots(&self) -> impl Iterator<Item = &Slot> {
        self.0.values().flat_map(Slots::all)
    }

    /// Threads that there were at the same time.
    #[cfg(all(test, not(any(loom, shuttle))))]
    pub(super) fn count(&self) -> usize {
        self.0.nodes().count()
    }

    /// In the child of a fork: threads other than this are not there, and read nothing.
    #[cfg(all(unix, feature = "std", not(any(loom, miri))))]
    pub(super) fn forked(&self, own: Option<Reader<'_>>) {
        for node in self.0.others(own.map(|own| own.0)) {
            node.value.forget();
            node.release();
        }
    }
}

impl Default for Readers {
    fn default() -> Readers {
        Readers::new()
    }
}

impl<'a> Reader<'a> {
    /// What the thread reads.
    #[inline]
    pub(super) fn slots(self) -> &'a Slots {
        &self.0.value
    }

    /// The thread reads no more, if it reads nothing; else it does not leave, and this is false: what
    /// it reads is locked.
    ///
    /// # Safety
    /// By this thread, which uses no copy of the reader from then on.
    pub unsafe fn leave(self) -> bool {
        let is_idle = self.0.value.is_idle();
        if is_idle {
            self.0.release();
        }
        is_idle
    }
}

/// Who reads and writes locks of one kind: the threads of a process or a kernel.
///
/// # Safety
/// [`reader`](Threads::reader) is of [`readers`](Threads::readers), and no other thread is the same
/// reader. It is the same as long as the thread reads anything, and none only when the thread reads
/// nothing by it. [`platform`](Threads::platform) is always equal, and all threads of it that may read
/// are among those that its heavy fence is for.
pub unsafe trait Threads {
    /// What they run on.
    type Platform: Platform;

    /// The system.
    fn platform() -> Self::Platform;

    /// All of them.
    fn readers() -> &'static Readers;

    /// The calling thread; none if it does not take part, and reads by the locks below.
    fn reader() -> Option<Reader<'static>>;
}
