//! The registered readers.

#[cfg(all(feature = "std", not(loom)))]
use core::mem::ManuallyDrop;
use core::{cell::Cell, marker::PhantomData};

use super::slots::{Slot, Slots};
use crate::platform::Platform;
use crate::primitive::constant;
use crate::registry::{Node, Registry};

/// The threads of a system that take read locks through slots.
#[derive(Debug)]
pub struct Readers(Registry<Slots>);

/// A thread's registration in [`Readers`]. Only one thread at a time uses a `Reader`.
///
/// When the `Reader` is dropped, the thread unregisters. If the thread still has a lock, for example because
/// of a leaked guard, the registration stays forever.
#[derive(Debug)]
pub struct Reader<'a> {
    node: &'a Node<Slots>,
    /// Not `Sync`.
    one: PhantomData<Cell<()>>,
}

impl Readers {
    constant! {
        /// A set without threads.
        pub fn new() -> Readers {
            Readers(Registry::new())
        }
    }

    /// Registers the calling thread. The reader reuses a free node, or allocates one if none is free. All
    /// calls must pass equal platforms.
    #[cfg(feature = "alloc")]
    pub fn register(&self, platform: &impl Platform) -> Reader<'_> {
        Reader::new(self.0.take_or_make(|| Slots::new(platform)))
    }

    /// Like `register`, but never allocates a node: if none is free, returns `None`. See
    /// [`Readers::add_node`].
    pub fn try_register(&self) -> Option<Reader<'_>> {
        self.0.take().map(Reader::new)
    }

    /// Adds a free node. An embedder without an allocator adds one node for each thread or CPU. The `Slots`
    /// of all nodes must have been made for equal platforms.
    ///
    /// # Panics
    /// If the node was added before, to this set or to another.
    pub fn add_node(&self, node: &'static Node<Slots>) {
        self.0.add_free(node);
    }

    /// The slots of all threads, which a writer walks.
    pub(super) fn slots(&self) -> impl Iterator<Item = &Slot> {
        self.0.values().flat_map(Slots::all)
    }

    /// The number of nodes, free and taken.
    #[cfg(all(test, not(any(loom, shuttle))))]
    pub(super) fn count(&self) -> usize {
        self.0.nodes().count()
    }

    /// Called in the child of a fork: frees the slots of all threads that exist only in the parent.
    #[cfg(all(unix, feature = "std", not(any(loom, miri))))]
    pub(super) fn forked(&self, own: Option<&Node<Slots>>) {
        for node in self.0.others(own) {
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
    fn new(node: &'a Node<Slots>) -> Reader<'a> {
        Reader { node, one: PhantomData }
    }

    /// The thread's slots.
    #[inline]
    pub(super) fn slots(&self) -> &'a Slots {
        &self.node.value
    }
}

#[cfg(all(feature = "std", not(loom)))]
impl<'a> Reader<'a> {
    /// Returns the reader's node. The thread stays registered.
    pub(super) fn into_node(self) -> &'a Node<Slots> {
        ManuallyDrop::new(self).node
    }

    /// # Safety
    /// The node came from [`into_node`](Reader::into_node). Only one thread uses the `Reader`s that are made
    /// from the node. Once that thread has dropped one of them, the thread uses none of the others.
    #[inline]
    pub(super) unsafe fn from_node(node: &'a Node<Slots>) -> Reader<'a> {
        Reader::new(node)
    }
}

impl Drop for Reader<'_> {
    fn drop(&mut self) {
        if self.node.value.is_idle() {
            self.node.release();
        }
    }
}

/// The threads that use one kind of lock in a process or a kernel.
///
/// # Safety
/// * [`readers`](Threads::readers) always returns the same reference. [`with_reader`](Threads::with_reader)
///   passes a [`Reader`] that is registered in the [`Readers`] behind this reference. Nothing else uses that
///   `Reader` during the call.
/// * As long as the calling thread holds a lock that it took with a `Reader`, `with_reader` passes that
///   `Reader`.
/// * [`platform`](Threads::platform) always returns equal platforms. All nodes of `readers` were made for an
///   equal platform. The platform's heavy fence reaches all threads that may read.
pub unsafe trait Threads {
    /// The platform of the threads.
    type Platform: Platform;

    /// The platform.
    fn platform() -> Self::Platform;

    /// All registered threads.
    fn readers() -> &'static Readers;

    /// Passes the calling thread's reader to `with`. If this function passes `None`, the thread takes the
    /// underlying lock instead of a slot.
    fn with_reader<R>(with: impl FnOnce(Option<&Reader<'static>>) -> R) -> R;
}
