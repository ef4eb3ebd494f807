//! Who protects what from whom.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use core::fmt;
use core::marker::PhantomData;
use core::mem;
use core::ptr;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use crate::mutant::{is_mutant, order};
use crate::platform::Platform;
use crate::primitive::{self, AtomicPtr};
use crate::registry::{Node, Registry};
#[cfg(feature = "std")]
use crate::system::System;

use super::guard::{Guard, Record, SLOTS, leave, protect};

/// Objects that a thread retires before it looks whether it can free them. The look costs an
/// interrupt on each CPU that runs the process, about 10 microseconds, so 1024 bring that to 10
/// nanoseconds for each object. folly and haphazard wait for 1000.
const BATCH: usize = 1024;

/// Objects, and the threads that protect and retire them.
///
/// What is retired to a domain is protected by guards of the same domain only.
pub struct Domain<
    #[cfg(feature = "std")] P: Platform = System,
    #[cfg(not(feature = "std"))] P: Platform,
> {
    platform: P,
    records: Registry<Record>,
    /// What threads that have left could not free.
    orphans: AtomicPtr<Orphans>,
    batch: usize,
}

/// The list of a thread that has left.
struct Orphans {
    list: Vec<Retired>,
    /// In a cell so that loom sees who hands the list to whom.
    next: primitive::Cell<*mut Orphans>,
}

/// An object that nobody finds any more.
struct Retired {
    pointer: *mut (),
    free: unsafe fn(*mut ()),
}

// SAFETY: only objects that may be freed by another thread are retired, see `Handle::retire`.
unsafe impl Send for Retired {}

// SAFETY: the platform is shared, as it says; records are atomics; orphans are taken as a whole by an
// exchange, and what is in them is `Send`.
unsafe impl<P: Platform> Sync for Domain<P> {}
// SAFETY: as above.
unsafe impl<P: Platform + Send> Send for Domain<P> {}

#[cfg(feature = "std")]
impl Default for Domain {
    fn default() -> Domain {
        Domain::new(System::detect())
    }
}

impl<P: Platform> Domain<P> {
    /// A domain in which each thread has at most `max(1024, 2 × slots)` objects of garbage.
    pub fn new(platform: P) -> Domain<P> {
        Domain::with_batch(platform, BATCH)
    }

    /// A domain in which each thread has at most `max(batch, 2 × slots)` objects of garbage. Large
    /// objects want a small batch; each batch costs a heavy fence.
    pub fn with_batch(platform: P, batch: usize) -> Domain<P> {
        Domain {
            platform,
            records: Registry::new(),
            orphans: AtomicPtr::new(ptr::null_mut()),
            batch: batch.max(1),
        }
    }

    /// Takes part in the domain, as one thread. It costs an allocation if no other has left before,
    /// so a thread keeps its handle.
    pub fn register(&self) -> Handle<'_, P> {
        Handle {
            domain: self,
            node: self.record(),
            more: RefCell::new(Vec::new()),
            garbage: RefCell::new(Vec::new()),
            limit: Cell::new(self.batch),
            reclaiming: Cell::new(false),
            thread: PhantomData,
        }
    }

    /// In the child of a fork, whose only thread has `own`: what others protect is free, and what they
    /// have retired stays for ever.
    #[cfg(all(unix, feature = "std", not(any(loom, miri))))]
    pub(super) fn forked(&self, own: Option<&Handle<'_, P>>) {
        let is_own = |node: &Node<Record>| own.is_some_and(|own| own.has(node));
        for node in self.records.nodes().filter(|node| !is_own(node)) {
            node.value.forget();
            node.release();
        }
    }

    fn record(&self) -> &Node<Record> {
        self.records.take_or_make(|| Record::new(self.platform.is_symmetric()))
    }

    /// Slots that there are, and what is in them, sorted. What was removed before cannot get into any
    /// of them any more.
    fn protected(&self) -> (usize, Vec<*mut ()>) {
        // See `protect`.
        if !is_mutant!("hazard_no_fence") {
            self.platform.heavy();
        }
        let mut slots = 0;
        let mut protected = Vec::new();
        for record in self.records.values() {
            slots += SLOTS;
            protected.extend(record.protected());
        }
        protected.sort_unstable();
        (slots, protected)
    }

    fn push_orphans(&self, list: Vec<Retired>) {
        let orphans =
            Box::into_raw(Box::new(Orphans { list, next: primitive::Cell::new(ptr::null_mut()) }));
        let mut first = self.orphans.load(Relaxed);
        loop {
            // SAFETY: nobody else has it before the exchange succeeds.
            unsafe { &*orphans }.next.with(|next| unsafe {
                *next = if is_mutant!("hazard_loses_orphans") { ptr::null_mut() } else { first };
            });
            // Release: who adopts them sees the list, and their removal from the structure.
            let release = order!(Release, "hazard_leave");
            match self.orphans.compare_exchange_weak(first, orphans, release, Relaxed) {
                Ok(_) => return,
                Err(other) => first = other,
            }
        }
    }

    fn adopt_orphans(&self, garbage: &mut Vec<Retired>) {
        if self.orphans.load(Relaxed).is_null() {
            return;
        }
        let mut next = self.orphans.swap(ptr::null_mut(), order!(Acquire, "hazard_adopt"));
        while !next.is_null() {
            // SAFETY: it was made by `Box` in `push_orphans`, and the exchange gave it to us alone.
            let orphans = unsafe { Box::from_raw(next) };
            // SAFETY: it is ours.
            next = orphans.next.with(|next| unsafe { *next });
            garbage.extend(orphans.list);
        }
    }
}

impl<P: Platform> Drop for Domain<P> {
    fn drop(&mut self) {
        let mut garbage = Vec::new();
        self.adopt_orphans(&mut garbage);
        // No guard is left, as guards borrow the domain; one that was forgotten is not used.
        garbage.into_iter().for_each(Retired::free);
    }
}

impl<P: Platform> fmt::Debug for Domain<P> {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.debug_struct("Domain").field("batch", &self.batch).finish_non_exhaustive()
    }
}

impl Retired {
    fn free(self) {
        // SAFETY: `retire` was told how to free it, and nobody finds or protects it any more.
        unsafe { (self.free)(self.pointer) };
    }
}

/// A thread's part in a [`Domain`]: its slots and its garbage.
///
/// When it is dropped, it frees what it can and leaves the rest to other threads.
pub struct Handle<
    'd,
    #[cfg(feature = "std")] P: Platform = System,
    #[cfg(not(feature = "std"))] P: Platform,
> {
    domain: &'d Domain<P>,
    node: &'d Node<Record>,
    /// Records for guards that found no free slot in the first one.
    more: RefCell<Vec<&'d Node<Record>>>,
    garbage: RefCell<Vec<Retired>>,
    /// Objects of garbage at which to reclaim.
    limit: Cell<usize>,
    /// Somebody further up the stack frees garbage, and a destructor has called us.
    reclaiming: Cell<bool>,
    /// Its guards use the record without a lock.
    thread: PhantomData<*mut ()>,
}

impl<'d, P: Platform> Handle<'d, P> {
    /// Protects what `source` points to; `None` if it is null.
    ///
    /// It goes around again when `source` changes meanwhile, so it is lock-free and not wait-free:
    /// each round that fails is an update that succeeded.
    ///
    /// # Safety
    /// `source` is null or points to a live `T` that anyone may share (`T: Sync` and `Send`, or used
    /// as such). Whoever takes the pointer out of `source` retires it to this domain before it is
    /// freed, and does not put it back after that.
    #[inline]
    pub unsafe fn protect<T>(&self, source: &AtomicPtr<T>) -> Option<Guard<'d, T>> {
        let (node, slot) = match self.node.value.free() {
            Some(slot) => (self.node, slot),
            None => self.another(),
        };
        // SAFETY: the handle's thread has the record; the rest is said by the caller.
        unsafe { protect(node, slot, source) }
    }

    /// A free slot where the first record has none.
    #[cold]
    fn another(&self) -> (&'d Node<Record>, &'d AtomicPtr<()>) {
        let mut more = self.more.borrow_mut();
        let found = more.iter().find_map(|&node| Some((node, node.value.free()?)));
        found.unwrap_or_else(|| {
            let node = self.domain.record();
            more.push(node);
            (node, node.value.free().expect("a record that nobody had has no guards"))
        })
    }

    #[cfg(all(unix, feature = "std", not(any(loom, miri))))]
    fn has(&self, node: &Node<Record>) -> bool {
        ptr::eq(self.node, node) || self.more.borrow().iter().any(|more| ptr::eq(*more, node))
    }

    /// The handle's first record.
    #[cfg(all(feature = "std", not(loom)))]
    pub(super) fn node(&self) -> &'d Node<Record> {
        self.node
    }

    /// Frees the object once nobody protects it: now and then it looks through its garbage.
    ///
    /// # Safety
    /// The pointer comes from [`Box::into_raw`]. The caller has removed it from the structure, so that
    /// nobody finds it who does not protect it yet, and nobody else retires it. It has a size: objects
    /// without are all at one address, and protected together. Anything that `T`
    /// borrows lives as long as the domain.
    pub unsafe fn retire<T: Send>(&self, object: *mut T) {
        unsafe fn free<T>(pointer: *mut ()) {
            // SAFETY: it is the pointer below.
            drop(unsafe { Box::from_raw(pointer.cast::<T>()) });
        }
        // SAFETY: `free` frees what `Box` made; the rest is said by the caller.
        unsafe { self.retire_with(object.cast(), free::<T>) };
    }

    /// As [`retire`](Handle::retire), for objects that are not freed as a `Box` is.
    ///
    /// # Safety
    /// As with `retire`, but for the pointer: it can be freed with `free`, by any thread, as long as
    /// the domain is there.
    pub unsafe fn retire_with(&self, pointer: *mut (), free: unsafe fn(*mut ())) {
        let count = {
            let mut garbage = self.garbage.borrow_mut();
            garbage.push(Retired { pointer, free });
            garbage.len()
        };
        if count >= self.limit.get() {
            self.reclaim();
        }
    }

    /// Frees whatever nobody protects, of this thread's garbage and of that which others left. One
    /// heavy fence, and a look at each slot.
    #[cold]
    pub fn reclaim(&self) {
        if self.reclaiming.replace(true) {
            return;
        }
        // A destructor may panic. What was not freed by then leaks.
        let _done = Done(&self.reclaiming);
        // Destructors may retire more.
        loop {
            let mut list = self.garbage.take();
            self.domain.adopt_orphans(&mut list);
            if list.is_empty() {
                return;
            }
            let (slots, protected) = self.domain.protected();
            self.limit.set(self.domain.batch.max(2 * slots));
            let keep = |object: &Retired| protected.binary_search(&object.pointer).is_ok();
            let (kept, free): (Vec<_>, Vec<_>) = list.into_iter().partition(keep);
            self.garbage.borrow_mut().extend(kept);
            let none = free.is_empty();
            free.into_iter().for_each(Retired::free);
            if none || self.garbage.borrow().len() < self.limit.get() {
                return;
            }
        }
    }

    /// Objects that this thread has retired or adopted and not freed yet.
    pub fn garbage(&self) -> usize {
        self.garbage.borrow().len()
    }
}

/// Resets the flag.
struct Done<'a>(&'a Cell<bool>);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.set(false);
    }
}

impl<P: Platform> Drop for Handle<'_, P> {
    fn drop(&mut self) {
        if self.garbage() != 0 {
            self.reclaim();
        }
        let list = mem::take(self.garbage.get_mut());
        if !list.is_empty() {
            self.domain.push_orphans(list);
        }
        leave(self.node);
        self.more.get_mut().drain(..).for_each(leave);
    }
}

impl<P: Platform> fmt::Debug for Handle<'_, P> {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.debug_struct("Handle").field("garbage", &self.garbage()).finish_non_exhaustive()
    }
}
