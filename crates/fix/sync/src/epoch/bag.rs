//! A bag of deferred calls that share one entry, so that a call needs no entry of its own.

use alloc::boxed::Box;
use core::mem::{self, MaybeUninit};
use core::ptr::NonNull;

use super::entry::Entry;

/// The number of calls in a full bag, which takes about 2 KiB.
const CALLS: usize = 126;

/// A function with its argument.
#[derive(Debug, Clone, Copy)]
pub(super) struct Deferred {
    pub(super) call: unsafe fn(*mut ()),
    pub(super) with: *mut (),
}

#[derive(Debug)]
#[repr(C)]
pub(super) struct Bag {
    /// The first field, so that the entry and the bag have the same address.
    entry: Entry,
    len: usize,
    calls: [MaybeUninit<Deferred>; CALLS],
}

// SAFETY: the thread that deferred a call has guaranteed that any thread may make it.
unsafe impl Send for Bag {}

impl Bag {
    pub(super) fn empty() -> Box<Bag> {
        spare::take().unwrap_or_else(|| {
            let calls = [const { MaybeUninit::uninit() }; CALLS];
            Box::new(Bag { entry: Entry::new(), len: 0, calls })
        })
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Adds a call to a bag that is not full. Returns whether the bag is full now.
    #[inline]
    pub(super) fn add(&mut self, deferred: Deferred) -> bool {
        self.calls[self.len].write(deferred);
        self.len += 1;
        self.len == CALLS
    }

    /// Turns the bag into an entry whose function runs all of the bag's deferred calls.
    pub(super) fn into_entry(mut self: Box<Bag>) -> NonNull<Entry> {
        self.entry.prepare(self.len as u32, call_all);
        NonNull::from(Box::leak(self)).cast()
    }
}

/// # Safety
/// The entry came from `into_entry`, and the grace period of its calls is over.
unsafe fn call_all(entry: NonNull<Entry>) {
    // SAFETY: `into_entry` leaked the bag, whose first field is the entry.
    let mut bag = unsafe { Box::from_raw(entry.cast::<Bag>().as_ptr()) };
    let len = mem::take(&mut bag.len);
    let mut rest = Rest { bag: &mut bag, made: 0, len };
    rest.make();
    drop(rest);
    spare::give(bag);
}

/// The calls that are still to be made. If a call panics, dropping this value makes the remaining calls.
struct Rest<'a> {
    bag: &'a mut Bag,
    made: usize,
    len: usize,
}

impl Rest<'_> {
    fn make(&mut self) {
        while self.made < self.len {
            // SAFETY: `add` has written the first `len` calls.
            let Deferred { call, with } = unsafe { self.bag.calls[self.made].assume_init() };
            self.made += 1;
            // SAFETY: the caller of `call_all` guarantees that the grace period is over. `made` is
            // incremented before each call, so each call is made once, even if it panics.
            unsafe { call(with) };
        }
    }
}

impl Drop for Rest<'_> {
    fn drop(&mut self) {
        self.make();
    }
}

/// Empty bags that a thread keeps for reuse.
#[cfg(feature = "std")]
mod spare {
    use std::cell::RefCell;

    use super::Bag;

    /// The maximum number of bags that a thread keeps: 256 KiB in all. A thread frees about this many bags at
    /// a time. If bags went back to the allocator between two uses, the allocator would split them into small
    /// objects and scatter later allocations.
    const MOST: usize = 128;

    thread_local! {
        // The list contains boxes because `into_entry` leaks a box, and `call_all` makes a box from the
        // bag's address again.
        #[expect(clippy::vec_box)]
        static BAGS: RefCell<Vec<Box<Bag>>> = const { RefCell::new(Vec::new()) };
    }

    pub(super) fn take() -> Option<Box<Bag>> {
        BAGS.try_with(|bags| bags.borrow_mut().pop()).ok().flatten()
    }

    pub(super) fn give(bag: Box<Bag>) {
        // An exiting thread may already have destroyed its list of bags.
        let _ = BAGS.try_with(|bags| {
            let mut bags = bags.borrow_mut();
            if bags.len() < MOST {
                bags.push(bag);
            }
        });
    }
}

/// Without thread-local storage, bags go back to the allocator.
#[cfg(not(feature = "std"))]
mod spare {
    use alloc::boxed::Box;

    use super::Bag;

    pub(super) fn take() -> Option<Box<Bag>> {
        None
    }

    pub(super) fn give(_: Box<Bag>) {}
}
