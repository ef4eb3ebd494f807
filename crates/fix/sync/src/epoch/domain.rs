//! A domain: its global epoch and the records of its readers. Scans, grace periods and barriers.

use core::ptr;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};
use core::time::Duration;

use super::entry::Queue;
#[cfg(all(unix, feature = "std", not(any(loom, miri))))]
use super::garbage::Garbage;
use super::record::{ONE, Record, Stall, epoch_of};
use crate::barrier_lock::BarrierLock;
use crate::mutant::{is_mutant, order};
use crate::padded::Padded;
use crate::platform::Platform;
use crate::primitive::{AtomicU32, AtomicU64, constant, fetch_max};
use crate::registry::{Node, Registry};

/// The number of sealed objects at which a thread scans, if a scan is due.
const SCAN_IF_DUE_AT: usize = 1024;
/// The number of sealed objects at which a thread scans even if no scan is due.
const SCAN_AT: usize = 1 << 16;
/// A scan executes a heavy fence, which takes a few microseconds from every running thread. If a scan takes
/// time `t`, the next scan is due `SCAN_BACKOFF * t` later, so fences take at most 6 % of the time.
const SCAN_BACKOFF: u32 = 16;
/// The maximum number of objects that a thread frees at a time. With this limit, a thread that retires one
/// object need not stop to free a million. The limit is high enough that a thread still frees objects faster
/// than it retires them.
const FREED_AT_ONCE: usize = 1 << 14;

/// A set of sections, with the retired objects that wait for these sections to end.
///
/// If an object is retired to a domain, the object waits only for the sections of this domain, so a structure
/// with a domain of its own does not wait for readers of other structures.
#[derive(Debug)]
pub struct Domain<P> {
    platform: P,
    /// The global epoch. A thread that seals retired objects tags them with this value and advances it.
    global: Padded<AtomicU64>,
    /// The safe epoch: no section can hold an object with a smaller tag. FreeBSD calls this epoch the read
    /// sequence.
    safe: Padded<AtomicU64>,
    /// When the next scan is due, by the platform's clock.
    next_scan: Padded<AtomicU64>,
    scan_backoff: AtomicU32,
    drain: Padded<Drain>,
    records: Registry<Record>,
}

/// The barrier in progress.
#[derive(Debug)]
struct Drain {
    lock: BarrierLock,
    /// The number of objects that the barrier has taken out of records and not freed yet.
    weight: AtomicU64,
}

/// A point in time. [`Domain::poll`] checks whether all sections that began before that point have ended.
///
/// ```
/// let domain = knee_sync::epoch::Domain::new(knee_sync::System::detect());
/// let unlinked = domain.cookie();
/// while !domain.poll(unlinked) {}
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cookie(u64);

impl<P: Platform> Domain<P> {
    constant! {
        /// A domain without readers.
        pub fn new(platform: P) -> Domain<P> {
            Domain {
                platform,
                global: Padded(AtomicU64::new(ONE)),
                safe: Padded(AtomicU64::new(ONE)),
                next_scan: Padded(AtomicU64::new(0)),
                scan_backoff: AtomicU32::new(SCAN_BACKOFF),
                drain: Padded(Drain {
                    lock: BarrierLock::new(),
                    weight: AtomicU64::new(0),
                }),
                records: Registry::new(),
            }
        }
    }

    /// The platform that the domain runs on.
    pub fn platform(&self) -> &P {
        &self.platform
    }

    /// Sets the time from the end of a scan for reclamation until the next such scan is due: `factor` times
    /// the duration of the scan that has ended. The default factor is 16.
    ///
    /// A scan executes a heavy fence, which stalls every running thread for a few microseconds. A small
    /// factor slows readers down, and a large factor lets more garbage accumulate. If no other thread is
    /// running, a scan takes less than a microsecond, and the time between scans is short as well. The factor
    /// does not delay [`synchronize`](Domain::synchronize) or other waits.
    pub fn set_scan_backoff(&self, factor: u32) {
        self.scan_backoff.store(factor, Relaxed);
    }

    /// Adds a free record, for a handle or a section. An embedder without an allocator adds one record for
    /// each CPU, and one for each [`Section`](super::Section) that may exist at the same time. A record is
    /// free again when its handle or section is dropped.
    ///
    /// # Panics
    /// If the node was added before, to this domain or to another.
    pub fn add_node(&self, node: &'static Node<Record>) {
        self.records.add_free(node);
    }

    /// Takes a free record, or a new one.
    #[cfg(feature = "alloc")]
    pub(super) fn record(&self) -> &Node<Record> {
        self.records.take_or_make(Record::new)
    }

    /// Takes a free record, if there is one.
    pub(super) fn free_record(&self) -> Option<&Node<Record>> {
        self.records.take()
    }

    /// The global epoch, which readers copy.
    #[inline]
    pub(super) fn global_epoch(&self) -> &AtomicU64 {
        &self.global
    }

    /// Advances the global epoch and returns its old value, which is a valid tag for each object that was
    /// unlinked before the call.
    fn advance(&self) -> u64 {
        // AcqRel: every earlier unlinking stays before the advance (Release). A reader with a later epoch has
        // read that epoch from this read-modify-write or from one that follows, so the reader sees these
        // unlinkings.
        self.global.fetch_add(ONE, order!(AcqRel, "epoch_tag"))
    }

    /// Waits until all sections that began before the call have ended: `epoch_wait`, `synchronize_rcu`.
    ///
    /// In a process, the caller sleeps during a long wait ([`Platform::sleep_while`]). Readers do not wake
    /// the caller, so the call may return late, by up to a quarter of the wait, but at most 10 ms.
    ///
    /// If the caller is in a section, this function waits forever.
    /// [`Handle::synchronize`](super::Handle::synchronize) and [`synchronize`](super::synchronize) panic
    /// instead.
    pub fn synchronize(&self) {
        self.wait(self.cookie());
    }

    /// The current point in time, for [`Domain::poll`] and [`Domain::wait`].
    pub fn cookie(&self) -> Cookie {
        Cookie(self.advance())
    }

    /// Whether all sections that began before `cookie` was taken have ended. This function does not wait. If
    /// no earlier scan has shown that these sections have ended, the function scans, which costs a heavy
    /// fence.
    pub fn poll(&self, cookie: Cookie) -> bool {
        self.is_over(cookie) || self.fence_and_scan() > cookie.0
    }

    /// Waits until [`Domain::poll`] returns true.
    pub fn wait(&self, cookie: Cookie) {
        if self.is_over(cookie) {
            return;
        }
        let fenced = self.fence();
        self.platform.sleep_while(|| {
            !self.is_over(cookie) && self.scan(fenced) <= cookie.0.saturating_sub(early())
        });
    }

    pub(super) fn is_over(&self, Cookie(tag): Cookie) -> bool {
        // Acquire: the caller's next step comes after the reads of the sections that have ended.
        self.safe.load(order!(Acquire, "epoch_over")) > tag.saturating_sub(early())
    }

    /// Executes a heavy fence and scans. Returns the safe epoch: no section holds an object with a
    /// smaller tag.
    fn fence_and_scan(&self) -> u64 {
        self.scan(self.fence())
    }

    /// Executes a heavy fence. Returns the global epoch from before the fence: objects with a smaller tag
    /// were unlinked before the fence.
    fn fence(&self) -> u64 {
        // Relaxed: `advance` releases what a writer did before it advanced the epoch, and the heavy fence
        // below acquires what `advance` released.
        let now = self.global.load(Relaxed);
        if !is_mutant!("no_fence") {
            self.platform.heavy();
        }
        now
    }

    /// Scans the records after a fence and advances the safe epoch, to `fenced` at most.
    ///
    /// Either the scan sees a reader's epoch, or the reader stored the epoch after the fence. In the first
    /// case, the reader holds no object with a tag below its epoch (see `Reader::enter`). In the second case,
    /// the reader's loads come after the fence, too, and see every unlinking that came before the fence. So
    /// the reader holds no object with a tag below `fenced`. If a reader loaded the global epoch long ago and
    /// stores it only now, the reader's epoch may be below the safe epoch. As in the second case, this
    /// reader's loads come after the fence of the scan that advanced the safe epoch, so the reader holds no
    /// object with a tag below the safe epoch. The safe epoch therefore need not go backward. Objects that
    /// are sealed later get no tag below the safe epoch.
    fn scan(&self, fenced: u64) -> u64 {
        let mut oldest = fenced;
        for record in self.records.values() {
            let Some(time) = epoch_of(record.reader.word()) else { continue };
            // If a section's epoch is at least `fenced`, the section is not observed, because other sections
            // may still begin in the same epoch: see `Watch::observe`.
            if time < fenced || is_mutant!("epoch_note_any") {
                record.watch.observe(time, || self.platform.now());
            }
            oldest = oldest.min(time);
        }
        // AcqRel: this scan has found that older sections have ended. The reads of these sections come before
        // every free by a thread that sees the new value.
        fetch_max(&self.safe, oldest, order!(AcqRel, "epoch_read")).max(oldest)
    }

    /// The sections that exist now and that a scan first saw at least `age` ago. Reclamation waits for the
    /// oldest of these sections.
    ///
    /// A section is noticed only by scans, which run in this function, in waits and during reclamation. To
    /// watch a domain, call this function periodically. A section may have begun long before a scan sees it,
    /// so a stall may be reported as shorter than it is, but never as longer.
    pub fn stalls(&self, age: Duration) -> impl Iterator<Item = Stall> {
        // After this advance, every section that has already begun has an earlier epoch than any section that
        // begins later. So the scan below can record the sections that have begun: see `Watch::observe`.
        self.advance();
        self.fence_and_scan();
        let now = self.platform.now();
        let stalls = self.records.values().filter_map(move |record| record.stall(now));
        stalls.filter(move |stall| stall.since >= age)
    }

    /// The number of retired objects that are not freed yet. Each thread updates its part of this number
    /// about once per hundred objects.
    pub fn garbage(&self) -> u64 {
        let waiting = self.records.values().map(|record| record.watch.weight.load(Relaxed));
        waiting.sum::<u64>() + self.drain.weight.load(Relaxed)
    }

    /// Seals the owner's open objects and frees the sealed objects that are ready. If none is ready, this
    /// function scans and tries again in two cases: if many objects are waiting and a scan is due, or if very
    /// many objects are waiting.
    ///
    /// # Safety
    /// Must be called by the record's owner.
    #[cold]
    pub(super) unsafe fn seal(&self, record: &Record) {
        // SAFETY: the caller owns the record, and `advance` does not use the record's garbage.
        let sealed = unsafe {
            record.garbage.lock_owner(&self.platform, |garbage| {
                garbage.seal(|| self.advance());
                record.watch.weight.store(garbage.weight() as u64, Relaxed);
                garbage.sealed()
            })
        };
        // It costs no fence to free objects that an earlier scan has found ready. SAFETY: the caller owns the
        // record.
        let freed = unsafe { self.free(record) };
        if freed > 0 || sealed < SCAN_IF_DUE_AT {
            return;
        }
        if self.scan_if_due(record, sealed >= SCAN_AT) {
            // SAFETY: the caller owns the record.
            unsafe { self.free(record) };
        }
    }

    /// If a scan is due or `is_urgent` is true, executes a scan, and then frees the ready objects of records
    /// without an owner. Returns whether this function has executed a scan. The caller owns `record`.
    fn scan_if_due(&self, record: &Record, is_urgent: bool) -> bool {
        let before = self.platform.now();
        let is_due = is_urgent || before >= self.next_scan.load(Relaxed);
        if is_due {
            self.fence_and_scan();
            self.adopt(record);
            let after = self.platform.now();
            let pause = u64::from(self.scan_backoff.load(Relaxed)) * after.saturating_sub(before);
            self.next_scan.store(after + pause, Relaxed);
        }
        is_due
    }

    /// Seals the owner's open objects. If a scan is due, scans and frees the objects that are ready.
    ///
    /// # Safety
    /// Must be called by the record's owner.
    #[cfg(feature = "std")]
    pub(super) unsafe fn reclaim_if_due(&self, record: &Record) {
        // SAFETY: the caller owns the record, and `advance` does not use its garbage.
        unsafe {
            record.garbage.lock_owner(&self.platform, |garbage| garbage.seal(|| self.advance()))
        };
        if self.scan_if_due(record, false) {
            // SAFETY: the caller owns the record.
            unsafe { self.free(record) };
        }
    }

    /// Seals the owner's open objects, scans once and frees the objects that are ready.
    ///
    /// # Safety
    /// Must be called by the record's owner.
    pub(super) unsafe fn reclaim(&self, record: &Record) {
        // SAFETY: the caller owns the record.
        unsafe {
            record.garbage.lock_owner(&self.platform, |garbage| garbage.seal(|| self.advance()));
            self.fence_and_scan();
            while self.free(record) > 0 {}
        }
        self.adopt(record);
    }

    /// Repairs the records in the child of a fork, whose only thread has the record `own`.
    #[cfg(all(unix, feature = "std", not(any(loom, miri))))]
    pub(super) fn forked(&self, own: Option<&Node<Record>>) {
        for record in self.records.values() {
            // SAFETY: this is the only thread. At the fork, this thread did not have the lock of its garbage,
            // because no code that has this lock calls fork(2). A signal handler that calls _Fork(3) does not
            // run this function; since POSIX.1-2024, fork(2) itself is not async-signal-safe.
            unsafe { record.garbage.forked(Garbage::new()) };
        }
        for node in self.records.others(own) {
            let watch = &node.value.watch;
            let adopter = watch.adopter.load(Relaxed);
            if own.is_some_and(|own| ptr::eq(adopter, &own.value)) {
                // This thread had adopted the record, and a destructor or deferred call of the record has
                // called fork(2). The thread releases the record when this destructor or call returns.
                continue;
            }
            watch.calls.end();
            // SAFETY: records exist as long as the domain.
            let is_adopter_kept = unsafe { adopter.as_ref() }
                .is_some_and(|adopter| adopter.watch.is_kept.load(Relaxed));
            if !watch.is_kept.load(Relaxed) && !is_adopter_kept {
                watch.adopter.store(ptr::null_mut(), Relaxed);
                node.value.reader.abandon();
                node.release();
            }
        }
        if self.drain.lock.forked() {
            self.drain.weight.store(0, Relaxed);
        }
    }

    /// Frees some of a record's ready objects. Returns the number of freed objects.
    ///
    /// # Safety
    /// Must be called by the record's owner.
    unsafe fn free(&self, record: &Record) -> usize {
        // A destructor that retires objects may call this function again. The inner call frees nothing.
        let Some(_calls) = record.watch.calls.begin() else { return 0 };
        // Acquire: the destructors come after all reads in the sections that have ended, whichever thread
        // scanned.
        let read = self.safe.load(order!(Acquire, "epoch_free"));
        // SAFETY: the caller owns the record.
        let ready = unsafe {
            record.garbage.lock_owner(&self.platform, |garbage| {
                let ready = garbage.take_ready(read, FREED_AT_ONCE);
                record.watch.weight.store(garbage.weight() as u64, Relaxed);
                ready
            })
        };
        let freed = ready.weight;
        // SAFETY: `take_ready` returns objects with a tag below the safe epoch, so their grace period is
        // over.
        unsafe { ready.call() };
        freed
    }

    /// Frees the ready objects of records without an owner. The caller owns `adopter`.
    fn adopt(&self, adopter: &Record) {
        /// Releases the record, even if a call panics.
        struct Adopted<'a>(&'a Node<Record>);

        impl Drop for Adopted<'_> {
            fn drop(&mut self) {
                self.0.value.watch.adopter.store(ptr::null_mut(), Relaxed);
                self.0.release();
            }
        }

        let left = |node: &&Node<Record>| node.value.watch.weight.load(Relaxed) > 0;
        for node in self.records.nodes().filter(left) {
            if node.try_take() || is_mutant!("epoch_adopts_all") {
                let adopted = Adopted(node);
                node.value.watch.adopter.store(ptr::from_ref(adopter).cast_mut(), Relaxed);
                // SAFETY: `try_take` made this thread the owner until `adopted` is dropped.
                unsafe { self.free(&adopted.0.value) };
            }
        }
    }

    /// Waits for everything that any thread has retired or deferred so far. Returns when the objects are
    /// freed and the deferred calls have run, like FreeBSD's `epoch_drain_callbacks` and Linux's
    /// `rcu_barrier`. Must not be called in a section.
    ///
    /// A barrier frees all objects that it finds, after one grace period. A barrier executes two heavy
    /// fences, however many threads there are. Barriers of one domain run one after the other. Like
    /// [`synchronize`](Domain::synchronize), a barrier sleeps if the wait is long.
    ///
    /// # Panics
    /// If a destructor or a deferred call panics. All other calls have run by then.
    ///
    /// If a destructor or a deferred call calls this function, because the barrier would wait for its own caller.
    /// Without the feature `std`, the barrier does not panic, and waits forever.
    pub fn barrier(&self) {
        /// Resets the count of taken objects when the barrier ends, even if it ends with a panic.
        struct Taken<'a>(&'a AtomicU64);

        impl Drop for Taken<'_> {
            fn drop(&mut self) {
                self.0.store(0, Relaxed);
            }
        }

        let mut records = self.records.values();
        let is_own = self.drain.lock.is_own() || records.any(|one| one.watch.calls.is_own());
        assert!(!is_own, "barrier would wait for the destructor or deferred call that calls it");
        let _locked = self.drain.lock.lock(&self.platform);
        let taken = Taken(&self.drain.weight);
        let all = self.take_all();
        taken.0.store(all.weight as u64, Relaxed);
        // `take_all` has returned only objects that were unlinked earlier, so this cookie covers all of them.
        self.wait(self.cookie());
        // SAFETY: every section that may have found one of these objects has ended.
        unsafe { all.call() };
        // Owners may still be freeing objects that they took out of their records before `take_all`.
        for record in self.records.values() {
            record.watch.calls.wait(&self.platform);
        }
    }

    /// Takes all garbage out of all records, with one fence. Meanwhile, an owner that retires or frees
    /// objects waits for the lock, about as long as the fence takes. Only barriers call this function, and
    /// barriers run one at a time, so no two threads request locks in different orders.
    fn take_all(&self) -> Queue {
        // A record that is added later has no garbage from before the call.
        let records = self.records.snapshot();
        for record in records.clone() {
            record.garbage.request(&self.platform);
        }
        if !is_mutant!("epoch_drain_no_fence") {
            self.platform.heavy();
        }
        let mut all = Queue::EMPTY;
        for record in records {
            // SAFETY: the lock was requested above, and the heavy fence came after that.
            let taken = unsafe {
                record.garbage.lock_requested(&self.platform, |garbage| {
                    record.watch.weight.store(0, Relaxed);
                    garbage.take_all()
                })
            };
            all.concat(taken);
        }
        all
    }
}

/// Returns 0, except in the mutant that frees objects one epoch too early.
fn early() -> u64 {
    if is_mutant!("early") { ONE } else { 0 }
}

impl<P> Drop for Domain<P> {
    fn drop(&mut self) {
        // Handles and sections borrow the domain, so none exist, and all objects are ready.
        for record in self.records.values() {
            loop {
                // SAFETY: `&mut self` excludes other users of the garbage.
                let all = unsafe {
                    record.garbage.unguarded(|garbage| {
                        garbage.seal(|| 0);
                        garbage.take_ready(u64::MAX, usize::MAX)
                    })
                };
                if all.is_empty() {
                    break;
                }
                // SAFETY: no section exists.
                unsafe { all.call() };
            }
        }
    }
}
