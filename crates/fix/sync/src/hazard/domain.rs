//! A domain, the handles of its threads, and their retired objects.

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

/// Retired objects of a thread at which it scans. A scan costs an interrupt on each CPU that runs the
/// process, about 10 microseconds, so 1024 objects share it at 10 nanoseconds each. folly and haphazard
/// scan at 1000.
const BATCH: usize = 1024;

/// A set of objects, and the threads that protect and retire them.
///
/// Only guards of a domain protect the objects that are retired to it.
pub struct Domain<
    #[cfg(feature = "std")] P: Platform = System,
    #[cfg(not(feature = "std"))] P: Platform,
> {
    platform: P,
    records: Registry<Record>,
    /// Objects that threads could not free before they unregistered.
    orphans: AtomicPtr<Orphans>,
    batch: usize,
}

/// The list of a thread that has unregistered.
struct Orphans {
    list: Vec<Retired>,
    /// A `Cell`, so that loom checks how the list is handed over.
    next: primitive::Guarded<*mut Orphans>,
}

/// An object that is unlinked.
struct Retired {
    pointer: *mut (),
    free: unsafe fn(*mut ()),
}

// SAFETY: the contract of `Handle::retire` allows any thread to free it.
unsafe impl Send for Retired {}

// SAFETY: a platform is `Sync` and records are atomics. An exchange takes the orphans as a whole, and
// their contents are `Send`.
unsafe impl<P: Platform> Sync for Domain<P> {}
// SAFETY: as for `Sync`; the platform is `Send`.
unsafe impl<P: Platform + Send> Send for Domain<P> {}

#[cfg(feature = "std")]
impl Default for Domain {
    fn default() -> Domain {
        Domain::new(System::detect())
    }
}

impl<P: Platform> Domain<P> {
    /// A domain in which each thread has at most `max(1024, 2 × slots)` retired objects.
    pub fn new(platform: P) -> Domain<P> {
        Domain::with_batch(platform, BATCH)
    }

    /// A domain in which each thread has at most `max(batch, 2 × slots)` retired objects. Choose a small
    /// batch for large objects; each batch costs a heavy fence.
    pub fn with_batch(platform: P, batch: usize) -> Domain<P> {
        Domain {
            platform,
            records: Registry::new(),
            orphans: AtomicPtr::new(ptr::null_mut()),
            batch: batch.max(1),
        }
    }

    /// A handle for the calling thread, in a free record or in a new one. A thread should keep its
    /// handle.
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

    /// Repairs the records in the child of a fork, whose only thread has `own`: other threads protect
    /// nothing, and the objects that they had retired are leaked.
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

    /// The number of slots, and the pointers in them, sorted. A pointer that was unlinked before the call
    /// cannot get into a slot any more.
    fn protected(&self) -> (usize, Vec<*mut ()>) {
        // See `guard::protect`.
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
        let orphans = Box::into_raw(Box::new(Orphans {
            list,
            next: primitive::Guarded::new(ptr::null_mut()),
        }));
        let mut first = self.orphans.load(Relaxed);
        loop {
            // SAFETY: only this thread has the list before the exchange succeeds.
            unsafe { &*orphans }.next.with(|next| unsafe {
                *next = if is_mutant!("hazard_loses_orphans") { ptr::null_mut() } else { first };
            });
            // Release: the thread that adopts them sees the list, and sees the objects unlinked.
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
            // SAFETY: `push_orphans` made it from a `Box`, and the exchange gave it to this thread alone.
            let orphans = unsafe { Box::from_raw(next) };
            // SAFETY: only this thread has the list.
            next = orphans.next.with(|next| unsafe { *next });
            garbage.extend(orphans.list);
        }
    }
}

impl<P: Platform> Drop for Domain<P> {
    fn drop(&mut self) {
        let mut garbage = Vec::new();
        self.adopt_orphans(&mut garbage);
        // Guards borrow the domain, so none is left, and a leaked guard is not used.
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
        // SAFETY: `retire_with` was given a `free` for this pointer. A scan has found no guard, and the
        // object is unlinked, so there is no later one.
        unsafe { (self.free)(self.pointer) };
    }
}

/// A thread's registration in a [`Domain`]: its slots and its retired objects.
///
/// When it is dropped, it frees the objects that it can and leaves the rest to other threads.
pub struct Handle<
    'd,
    #[cfg(feature = "std")] P: Platform = System,
    #[cfg(not(feature = "std"))] P: Platform,
> {
    domain: &'d Domain<P>,
    node: &'d Node<Record>,
    /// Records for guards that found no free slot in the first record.
    more: RefCell<Vec<&'d Node<Record>>>,
    garbage: RefCell<Vec<Retired>>,
    /// Retired objects at which to scan.
    limit: Cell<usize>,
    /// A caller further up the stack reclaims, and a destructor has called again.
    reclaiming: Cell<bool>,
    /// Neither `Send` nor `Sync`: guards use the record without a lock.
    thread: PhantomData<*mut ()>,
}

impl<'d, P: Platform> Handle<'d, P> {
    /// Protects the object that `source` points to. Returns `None` if `source` is null.
    ///
    /// It retries when `source` changes meanwhile, so it is lock-free and not wait-free: each failed
    /// round is an update that succeeded.
    ///
    /// # Safety
    /// A pointer in `source` is null or points to a live `T` that threads may share. A writer that
    /// removes it from `source` retires it to this domain before it is freed, and nobody stores it in
    /// `source` again after that.
    ///
    /// If `source` is a field of another object, `source` must change before the `T` is retired even if that
    /// object is unlinked already: a reader that protects the object may follow it at any time. A list
    /// therefore points the link of a removed node elsewhere, for example to the node itself, and a reader
    /// that finds such a link starts again.
    #[inline]
    pub unsafe fn protect<T>(&self, source: &AtomicPtr<T>) -> Option<Guard<'d, T>> {
        let (node, slot) = match self.node.value.free() {
            Some(slot) => (self.node, slot),
            None => self.another(),
        };
        // SAFETY: the handle's thread owns the record, and `slot` is a free slot of it. The rest of the
        // contract is the same.
        unsafe { protect(node, slot, source) }
    }

    /// A free slot of another record, when the first record has none.
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

    /// Frees the object once no guard protects it. Scans the slots when enough objects are retired.
    ///
    /// # Safety
    /// The pointer came from [`Box::into_raw`]. It is unlinked, so that no reader can protect it any more
    /// unless it does already, and it is retired once. `T` is not zero-sized, as all zero-sized objects
    /// have one address. Everything that `T` borrows lives as long as the domain.
    pub unsafe fn retire<T: Send>(&self, object: *mut T) {
        unsafe fn free<T>(pointer: *mut ()) {
            // SAFETY: `retire` was called with a pointer from `Box::into_raw`.
            drop(unsafe { Box::from_raw(pointer.cast::<T>()) });
        }
        // SAFETY: `free` frees a `Box` of `T`, which is `Send`. The rest of the contract is the same.
        unsafe { self.retire_with(object.cast(), free::<T>) };
    }

    /// As [`retire`](Handle::retire), for objects that are not freed as a `Box` is.
    ///
    /// # Safety
    /// That of `retire`, except that any thread may free the pointer with `free` as long as the domain
    /// exists.
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

    /// Scans once and frees the objects that no guard protects, of this thread and of threads that have
    /// unregistered. It costs a heavy fence and a load of each slot.
    #[cold]
    pub fn reclaim(&self) {
        if self.reclaiming.replace(true) {
            return;
        }
        // A destructor may panic. The objects that were not freed by then are leaked.
        let _done = Done(&self.reclaiming);
        // Destructors may retire more objects.
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

/// Resets the flag, also after a panic.
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
