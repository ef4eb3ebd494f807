//! The registered threads: a list of nodes that grows and never shrinks.
//!
//! Threads register and unregister while other threads walk the list. So the node of an unregistered thread
//! stays in the list, and a thread that registers later may take it over.

#[cfg(feature = "alloc")]
use alloc::boxed::Box;
use core::ptr::{self, NonNull};
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use crate::mutant::{is_mutant, order};
use crate::primitive::{AtomicBool, AtomicPtr, constant};

/// An element of a registry, in cache lines of its own.
#[derive(Debug)]
#[repr(align(128))]
pub struct Node<T> {
    /// The state of the node's owner.
    pub(crate) value: T,
    taken: AtomicBool,
    /// Whether the node has been added to a registry. A node is never removed from its registry.
    listed: AtomicBool,
    next: AtomicPtr<Node<T>>,
    /// Whether the registry allocated the node. A registry frees exactly the nodes that it allocated.
    #[cfg(feature = "alloc")]
    boxed: bool,
}

impl<T> Node<T> {
    constant! {
        /// A node that is in no registry.
        pub fn new(value: T) -> Node<T> {
            Node {
                value,
                taken: AtomicBool::new(false),
                listed: AtomicBool::new(false),
                next: AtomicPtr::new(ptr::null_mut()),
                #[cfg(feature = "alloc")]
                boxed: false,
            }
        }
    }

    /// Takes the node if it is free, and returns whether it was free.
    pub(crate) fn try_take(&self) -> bool {
        let is_taken = |order| self.taken.swap(true, order) && !is_mutant!("registry_gives_twice");
        !self.taken.load(Relaxed) && !is_taken(order!(Acquire, "registry_take"))
    }

    /// Frees the node for another owner, which sees everything that this owner did.
    pub(crate) fn release(&self) {
        self.taken.store(false, order!(Release, "registry_release"));
    }
}

/// A list of nodes.
#[derive(Debug)]
pub(crate) struct Registry<T> {
    first: AtomicPtr<Node<T>>,
}

impl<T> Registry<T> {
    constant! {
        pub(crate) fn new() -> Registry<T> {
            Registry { first: AtomicPtr::new(ptr::null_mut()) }
        }
    }

    /// Takes a free node.
    pub(crate) fn take(&self) -> Option<&Node<T>> {
        self.nodes().find(|node| node.try_take())
    }

    /// Adds a free node that the embedder provides.
    ///
    /// # Panics
    /// If the node was added before.
    pub(crate) fn add_free(&self, node: &'static Node<T>) {
        assert!(!node.listed.swap(true, Relaxed), "the node is in a registry already");
        // SAFETY: a `'static` reference guarantees that the node is never moved, freed or borrowed
        // exclusively. `listed` was false, so the node is in no registry.
        unsafe { self.link(NonNull::from(node)) };
    }

    /// # Safety
    /// The node must be in no registry. Until the registry is dropped, the node must not be moved, freed or
    /// borrowed exclusively.
    unsafe fn link(&self, node: NonNull<Node<T>>) {
        // SAFETY: the caller guarantees that the node exists and is not borrowed exclusively.
        let new = unsafe { node.as_ref() };
        let mut first = self.first.load(Relaxed);
        loop {
            new.next.store(first, Relaxed);
            match self.first.compare_exchange_weak(
                first,
                node.as_ptr(),
                order!(AcqRel, "registry_add"),
                Relaxed,
            ) {
                Ok(_) => return,
                Err(other) => first = other,
            }
        }
    }

    /// Takes a free node, or allocates one.
    #[cfg(feature = "alloc")]
    pub(crate) fn take_or_make(&self, make: impl FnOnce() -> T) -> &Node<T> {
        self.take().unwrap_or_else(|| {
            let [taken, listed] = [true; 2].map(AtomicBool::new);
            let node = Box::new(Node { boxed: true, taken, listed, ..Node::new(make()) });
            let node = NonNull::from(Box::leak(node));
            // SAFETY: the box is leaked, and only the registry frees it, when the registry is dropped.
            unsafe {
                self.link(node);
                node.as_ref()
            }
        })
    }

    /// All nodes except `own`. In the child of a fork, these nodes are free or belong to missing threads.
    #[cfg(all(unix, feature = "std", not(any(loom, miri))))]
    pub(crate) fn others(&self, own: Option<&Node<T>>) -> impl Iterator<Item = &Node<T>> {
        let own = own.map_or(ptr::null(), ptr::from_ref);
        self.nodes().filter(move |node| !ptr::eq(own, *node))
    }

    /// The values of all nodes, free and taken, from the newest node to the oldest. Nodes that are added
    /// during the walk may be missing.
    pub(crate) fn values(&self) -> impl Iterator<Item = &T> {
        self.nodes().map(|node| &node.value)
    }

    /// The values of all nodes that exist at the time of the call. A clone of the result walks the same
    /// nodes.
    pub(crate) fn snapshot(&self) -> impl Iterator<Item = &T> + Clone {
        self.walk(Some(self.first())).map(|node| &node.value)
    }

    /// All nodes.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = &Node<T>> {
        // The walk begins at the iterator's first step, so that the caller may execute a fence between this
        // call and that step.
        self.walk(None)
    }

    /// The newest node.
    fn first(&self) -> *mut Node<T> {
        self.first.load(order!(Acquire, "registry_walk"))
    }

    /// Iterates over the nodes, beginning with `next`. If `next` is `None`, the first step of the iterator
    /// loads and returns the newest node.
    fn walk(&self, mut next: Option<*mut Node<T>>) -> impl Iterator<Item = &Node<T>> + Clone {
        core::iter::from_fn(move || {
            let at = next.unwrap_or_else(|| self.first());
            // SAFETY: by the contract of `link`, no node is moved, freed or borrowed exclusively before the
            // registry is dropped. Acquire pairs with the AcqRel of the thread that added the node, so the
            // node's content is visible.
            let node = unsafe { at.as_ref() }?;
            next = Some(node.next.load(Relaxed));
            Some(node)
        })
    }
}

// SAFETY: threads share nodes by reference only, and the registry frees only nodes that it allocated.
unsafe impl<T: Sync + Send> Sync for Registry<T> {}
// SAFETY: as for `Sync`.
unsafe impl<T: Sync + Send> Send for Registry<T> {}

#[cfg(feature = "alloc")]
impl<T> Drop for Registry<T> {
    fn drop(&mut self) {
        let mut next = self.first.load(Relaxed);
        while let Some(node) = NonNull::new(next) {
            // SAFETY: `&mut self` excludes references to nodes.
            let (after, boxed) = unsafe { (node.as_ref().next.load(Relaxed), node.as_ref().boxed) };
            if boxed {
                // SAFETY: `take_or_make` leaked the box, and nothing else frees it.
                drop(unsafe { Box::from_raw(node.as_ptr()) });
            }
            next = after;
        }
    }
}

#[cfg(all(test, loom))]
mod modelled {
    use super::*;

    use std::sync::Arc;

    use crate::model::{check, thread};
    use crate::primitive::Guarded;

    #[test]
    fn a_node_has_one_owner_at_a_time() {
        check(3, || {
            let registry = Arc::new(Registry::<Guarded<u32>>::new());
            let take = |registry: &Registry<Guarded<u32>>| {
                let node = registry.take_or_make(|| Guarded::new(0));
                // SAFETY: loom panics on a concurrent access.
                node.value.with(|value| unsafe { *value += 1 });
                node.release();
            };
            let other = thread::spawn({
                let registry = Arc::clone(&registry);
                move || take(&registry)
            });
            take(&registry);
            other.join().unwrap();
        });
    }
}
