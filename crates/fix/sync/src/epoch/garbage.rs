//! The retired objects of one thread.

#[cfg(feature = "alloc")]
use super::bag::{Bag, Deferred};
use super::entry::{Entry, Queue};
#[cfg(feature = "alloc")]
use alloc::boxed::Box;
use core::mem;
use core::ptr::NonNull;

/// When there are this many open objects, they are sealed.
const SEALED_AT: usize = 64;

/// Retired objects, from the oldest to the newest. Open objects have no tag yet.
#[derive(Debug)]
pub(super) struct Garbage {
    open: Queue,
    sealed: Queue,
    #[cfg(feature = "alloc")]
    bag: Option<Box<Bag>>,
}

impl Garbage {
    pub(super) const fn new() -> Garbage {
        Garbage {
            open: Queue::EMPTY,
            sealed: Queue::EMPTY,
            #[cfg(feature = "alloc")]
            bag: None,
        }
    }

    /// Adds an entry. Returns whether it is time to seal.
    ///
    /// # Safety
    /// The contract of [`Queue::push`].
    pub(super) unsafe fn add(&mut self, entry: NonNull<Entry>) -> bool {
        // SAFETY: the contract is the same.
        unsafe { self.open.push(entry) };
        self.open.weight >= SEALED_AT
    }

    /// Adds a call to the bag. Returns whether it is time to seal.
    #[cfg(feature = "alloc")]
    #[inline]
    pub(super) fn defer(&mut self, deferred: Deferred) -> bool {
        self.bag.get_or_insert_with(Bag::empty).add(deferred)
    }

    /// Seals all open objects, if there are any: gives them the tag that `tag` returns.
    pub(super) fn seal(&mut self, tag: impl FnOnce() -> u64) {
        #[cfg(feature = "alloc")]
        if let Some(bag) = self.bag.take() {
            // SAFETY: the entry is the head of a leaked bag, and nothing else refers to the bag until the
            // entry is called.
            unsafe { self.open.push(bag.into_entry()) };
        }
        if !self.open.is_empty() {
            self.sealed.append(&mut self.open, tag());
        }
    }

    /// Takes all objects, whatever their tags.
    pub(super) fn take_all(&mut self) -> Queue {
        // Nothing reads the tags of a queue that is taken as a whole.
        self.seal(|| 0);
        mem::replace(&mut self.sealed, Queue::EMPTY)
    }

    /// See [`Queue::take_ready`].
    pub(super) fn take_ready(&mut self, safe: u64, most: usize) -> Queue {
        self.sealed.take_ready(safe, most)
    }

    /// The number of sealed objects.
    pub(super) fn sealed(&self) -> usize {
        self.sealed.weight
    }

    /// The number of all objects, whether open or sealed.
    pub(super) fn weight(&self) -> usize {
        #[cfg(feature = "alloc")]
        let in_bag = self.bag.as_ref().map_or(0, |bag| bag.len());
        #[cfg(not(feature = "alloc"))]
        let in_bag = 0;
        self.open.weight + self.sealed.weight + in_bag
    }
}
