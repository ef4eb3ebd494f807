//! The registered readers.

use super::slots::{Slot, Slots};
use crate::platform::Platform;
use crate::primitive::constant;
use crate::registry::{Node, Registry};

/// The threads of a system that read locks through slots.
#[derive(Debug)]
pub struct Readers(Registry<Slots>);

/// A registered thread of [`Readers`].
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

    /// The slots of all threads, which a writer walks.
    pub(super) fn slots(&self) -> impl Iterator<Item = &Slot> {
        self.0.values().flat_map(Slots::all)
    }

    /// The largest number of threads that were registered at the same time.
    #[cfg(all(test, not(any(loom, shuttle))))]
    pub(super) fn count(&self) -> usize {
        self.0.nodes().count()
    }

    /// Frees the slots of missing threads in the child of a fork.
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
    /// The thread's slots.
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

/// The threads that use locks of one kind: those of a process or a kernel.
///
/// # Safety
/// [`reader`](Threads::reader) returns a reader of [`readers`](Threads::readers) that no other thread
/// has. It returns the same one as long as the thread holds a lock, and `None` only if the thread holds
/// no lock by it. [`platform`](Threads::platform) always returns an equal platform, for which all nodes
/// of `readers` were made, and whose heavy fence reaches all threads that may read.
pub unsafe trait Threads {
    /// The platform of the threads.
    type Platform: Platform;

    /// The platform.
    fn platform() -> Self::Platform;

    /// All registered threads.
    fn readers() -> &'static Readers;

    /// The calling thread. `None` if it is not registered; it then uses the underlying locks.
    fn reader() -> Option<Reader<'static>>;
}
