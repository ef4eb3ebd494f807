//! All threads that may read.

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

    /// Registers the calling thread, in a free node or in a new one. All calls pass an equal platform.
    #[cfg(feature = "alloc")]
    pub fn register(&self, platform: &impl Platform) -> Reader<'_> {
        Reader(self.0.take_or_make(|| Slots::new(platform)))
    }

    /// Registers the calling thread, in a free node. Returns `None` if there is no free node, instead of
    /// allocating one. See [`Readers::add_node`].
    pub fn try_register(&self) -> Option<Reader<'_>> {
        self.0.take().map(Reader)
    }

    /// Adds a free node. An embedder without an allocator adds one for each thread or CPU. All nodes are
    /// made for an equal platform.
    ///
    /// # Panics
    /// If the node was added before, here or elsewhere.
    pub fn add_node(&self, node: &'static Node<Slots>) {
        self.0.add_free(node);
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

    /// Unregisters the thread if it holds no lock for reading. Returns false if it holds one, and then
    /// keeps the thread registered.
    ///
    /// # Safety
    /// Must be called by this thread. If the result is true, the thread must not use a copy of the reader
    /// any more.
    pub unsafe fn unregister(self) -> bool {
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
