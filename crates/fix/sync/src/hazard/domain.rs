//! A domain: the slots and the retired objects of its threads. Scans and barriers.

use alloc::vec::Vec;
use core::fmt;
use core::mem;
use core::sync::atomic::Ordering::Relaxed;

use crate::barrier_lock::BarrierLock;
use crate::mutant::is_mutant;
use crate::padded::Padded;
use crate::platform::Platform;
use crate::registry::{Node, Registry};
#[cfg(feature = "std")]
use crate::system::System;

use super::garbage::{Garbage, Retired};
use super::guard::{Record, SLOTS};

/// The number of retired objects at which a thread scans. A scan costs an interrupt on each CPU that runs
/// the process. The interrupts take about 10 microseconds, that is, 10 nanoseconds for each of 1024 objects.
/// folly and haphazard scan at 1000 objects.
const BATCH: usize = 1024;

/// A set of objects, and the threads that protect and retire them.
///
/// Objects that are retired to a domain are protected only by guards of that domain.
pub struct Domain<
    #[cfg(feature = "std")] P: Platform = System,
    #[cfg(not(feature = "std"))] P: Platform,
> {
    platform: P,
    records: Registry<Record>,
    /// The records of retired objects. They are separate from the records of slots, because a guard may
    /// keep its record of slots in use after its thread has unregistered.
    garbage: Registry<Garbage>,
    barriers: Padded<BarrierLock>,
    batch: usize,
}

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
            garbage: Registry::new(),
            barriers: Padded(BarrierLock::new()),
            batch: batch.max(1),
        }
    }

    /// The platform that the domain runs on.
    pub fn platform(&self) -> &P {
        &self.platform
    }

    pub(super) fn batch(&self) -> usize {
        self.batch
    }

    /// Takes a free record of slots, or a new one.
    pub(super) fn record(&self) -> &Node<Record> {
        self.records.take_or_make(|| Record::new(self.platform.is_symmetric()))
    }

    /// Takes a free record of retired objects, or a new one. A free record may contain objects.
    pub(super) fn garbage_record(&self) -> &Node<Garbage> {
        self.garbage.take_or_make(Garbage::new)
    }

    /// Repairs the records in the child of a fork. The child's only thread has the record `own_garbage` and
    /// the records for which `is_own` is true. In the child, the parent's other threads protect nothing, and
    /// the child leaks the objects that they were retiring or freeing.
    #[cfg(all(unix, feature = "std", not(any(loom, miri))))]
    pub(super) fn forked(
        &self,
        is_own: impl Fn(&Node<Record>) -> bool,
        own_garbage: Option<&Node<Garbage>>,
    ) {
        for node in self.records.nodes().filter(|node| !is_own(node)) {
            node.value.forget();
            node.release();
        }
        for node in self.garbage.nodes() {
            // SAFETY: this is the only thread. At the fork, this thread did not have the lock, because no
            // code that has this lock calls fork(2).
            unsafe { node.value.list.forked(Vec::new()) };
        }
        for node in self.garbage.others(own_garbage) {
            node.value.calls.end();
            node.value.is_orphaned.store(true, Relaxed);
            node.release();
        }
        self.barriers.forked();
    }

    /// Scans the slots. Returns the number of slots, and divides `list` into the protected objects and the
    /// unprotected objects. Unprotected objects stay unprotected, because they were unlinked before the call.
    pub(super) fn scan(&self, list: Vec<Retired>) -> (usize, Vec<Retired>, Vec<Retired>) {
        // This fence pairs with the light fence in `guard::protect`.
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
        let is_protected = |object: &Retired| protected.binary_search(&object.pointer).is_ok();
        let (kept, free) = list.into_iter().partition(is_protected);
        (slots, kept, free)
    }

    /// Adds to `list` the objects that threads left behind when they unregistered.
    pub(super) fn adopt_orphans(&self, list: &mut Vec<Retired>) {
        let orphaned = |node: &&Node<Garbage>| {
            node.value.is_orphaned.load(Relaxed) && !is_mutant!("hazard_adopts_none")
        };
        for node in self.garbage.nodes().filter(orphaned) {
            if node.try_take() {
                // SAFETY: `try_take` made this thread the owner until `release`.
                unsafe { node.value.list.lock_owner(&self.platform, |left| list.append(left)) };
                node.value.is_orphaned.store(false, Relaxed);
                node.release();
            }
        }
    }

    /// Waits until every object that any thread has retired so far is freed, unless a guard protects it. A
    /// barrier does not wait for guards: an object that a guard protects during the call may be freed later.
    ///
    /// A barrier frees the objects that it finds, and executes three heavy fences, however many threads
    /// there are. Barriers of one domain run one after the other. A barrier sleeps while it waits for
    /// destructors that other threads call.
    ///
    /// ```
    /// use knee_sync::hazard::Domain;
    ///
    /// let domain = Domain::default();
    /// let handle = domain.register();
    /// // SAFETY: no other thread has the box.
    /// unsafe { handle.retire(Box::into_raw(Box::new(7))) };
    /// domain.barrier();
    /// assert_eq!(handle.garbage(), 0);
    /// ```
    ///
    /// # Panics
    /// If a destructor panics. Objects that were not freed by then are leaked.
    ///
    /// If the destructor of a retired object calls this function, because the destructor would wait for itself.
    /// Without the feature `std`, the call does not panic, and waits forever.
    pub fn barrier(&self) {
        let is_own = self.barriers.is_own() || self.garbage.values().any(|one| one.calls.is_own());
        assert!(!is_own, "barrier would wait for the destructor that calls it");
        let _locked = self.barriers.lock(&self.platform);
        // Another thread that reclaims may have scanned before this call, and may keep an object whose guard
        // has been dropped since. This fence pairs with the heavy fence of that scan: either the loads of
        // `calls` below see that the other thread is reclaiming, or its scan sees that the guard was dropped.
        // Once the other thread's calls have ended, that thread's list contains the objects that it kept.
        if !is_mutant!("hazard_barrier_no_fence") {
            self.platform.heavy();
        }
        if !is_mutant!("hazard_barrier_no_wait") {
            self.wait_for_calls();
        }
        let (_, kept, free) = self.scan(self.take_all());
        if !kept.is_empty() {
            let node = self.garbage_record();
            // SAFETY: `garbage_record` made this thread the owner until `release`.
            unsafe { node.value.list.lock_owner(&self.platform, |list| list.extend(kept)) };
            node.value.is_orphaned.store(true, Relaxed);
            node.release();
        }
        // SAFETY: `scan` has found no guard that protects the object.
        free.into_iter().for_each(|object| unsafe { object.free() });
        // Threads may still be freeing objects that they took before `take_all`.
        if !is_mutant!("hazard_barrier_no_last_wait") {
            self.wait_for_calls();
        }
    }

    fn wait_for_calls(&self) {
        self.garbage.values().for_each(|garbage| garbage.calls.wait(&self.platform));
    }

    /// Takes the retired objects of all threads, with one fence. Meanwhile, a thread that needs its list
    /// waits for the lock. Only barriers call this function, and barriers run one at a time, so no two
    /// threads request locks in different orders.
    fn take_all(&self) -> Vec<Retired> {
        // A record that is added later has no objects from before the call.
        let records = self.garbage.snapshot();
        for record in records.clone() {
            record.list.request(&self.platform);
        }
        if !is_mutant!("hazard_drain_no_fence") {
            self.platform.heavy();
        }
        let mut all = Vec::new();
        for record in records {
            // SAFETY: the lock was requested above, and the heavy fence came after that.
            unsafe { record.list.lock_requested(&self.platform, |list| all.append(list)) };
        }
        all
    }
}

impl<P: Platform> Drop for Domain<P> {
    fn drop(&mut self) {
        for garbage in self.garbage.values() {
            // SAFETY: `&mut self` excludes other users of the list.
            let list = unsafe { garbage.list.unguarded(mem::take) };
            // SAFETY: guards borrow the domain, so none is left except leaked guards, which no thread can
            // use.
            list.into_iter().for_each(|object| unsafe { object.free() });
        }
    }
}

impl<P: Platform> fmt::Debug for Domain<P> {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.debug_struct("Domain").field("batch", &self.batch).finish_non_exhaustive()
    }
}
