//! Many calls in one entry: to defer one allocates nothing.

use alloc::boxed::Box;
use core::mem::{self, MaybeUninit};
use core::ptr::NonNull;

use super::entry::Entry;

/// Calls in a bag: 2 KiB.
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
    /// First, so that an entry's address is its bag's.
    entry: Entry,
    len: usize,
    calls: [MaybeUninit<Deferred>; CALLS],
}

// SAFETY: who defers a call promises that any thread may make it.
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

    /// Adds a call to one that is not full; whether it is full now.
    #[inline]
    pub(super) fn add(&mut self, deferred: Deferred) -> bool {
        self.calls[self.len].write(deferred);
        self.len += 1;
        self.len == CALLS
    }

    /// The entry that makes all calls.
    pub(super) fn into_entry(mut self: Box<Bag>) -> NonNull<Entry> {
        self.entry.prepare(self.len as u32, call_all);
        NonNull::from(Box::leak(self)).cast()
    }
}

/// # Safety
/// The entry is a bag's whose calls may be made.
unsafe fn call_all(entry: NonNull<Entry>) {
    // SAFETY: `into_entry` has leaked it, and its entry is its first field.
    let mut bag = unsafe { Box::from_raw(entry.cast::<Bag>().as_ptr()) };
    let len = mem::take(&mut bag.len);
    let mut rest = Rest { bag: &mut bag, made: 0, len };
    rest.make();
    drop(rest);
    spare::give(bag);
}

/// Calls of a bag that are still to be made: if one panics, by the end of this.
struct Rest<'a> {
    bag: &'a mut Bag,
    made: usize,
    len: usize,
}

impl Rest<'_> {
    fn make(&mut self) {
        while self.made < self.len {
            // SAFETY: the first `len` have been written.
            let Deferred { call, with } = unsafe { self.bag.calls[self.made].assume_init() };
            self.made += 1;
            // SAFETY: the grace period of all calls in the bag is over, and each is made once.
            unsafe { call(with) };
        }
    }
}

impl Drop for Rest<'_> {
    fn drop(&mut self) {
        self.make();
    }
}

/// Empty bags that a thread keeps.
#[cfg(feature = "std")]
mod spare {
    use std::cell::RefCell;

    use super::Bag;

    /// As many as are freed at once, 256 KiB: an allocator that gets them back in between cuts them up for
    /// small objects, and then all that is allocated is scattered.
    const MOST: usize = 128;

    thread_local! {
        // Boxed, as an entry's address has to be its bag's.
        #[expect(clippy::vec_box)]
        static BAGS: RefCell<Vec<Box<Bag>>> = const { RefCell::new(Vec::new()) };
    }

    pub(super) fn take() -> Option<Box<Bag>> {
        BAGS.try_with(|bags| bags.borrow_mut().pop()).ok().flatten()
    }

    pub(super) fn give(bag: Box<Bag>) {
        // A thread that exits has no list any more.
        let _ = BAGS.try_with(|bags| {
            let mut bags = bags.borrow_mut();
            if bags.len() < MOST {
                bags.push(bag);
            }
        });
    }
}

/// Without threads that are known, bags go back to the allocator.
#[cfg(not(feature = "std"))]
mod spare {
    use alloc::boxed::Box;

    use super::Bag;

    pub(super) fn take() -> Option<Box<Bag>> {
        None
    }

    pub(super) fn give(_: Box<Bag>) {}
}
