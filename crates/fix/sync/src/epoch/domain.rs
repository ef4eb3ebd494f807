//! All who may hold something, and what waits for them.

use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use core::time::Duration;

use super::clock::ONE;
use super::entry::Queue;
#[cfg(all(unix, feature = "std", not(any(loom, miri))))]
use super::garbage::Garbage;
use super::record::{Record, Stall, epoch_of};
use crate::mutant::{is_mutant, order};
use crate::padded::Padded;
use crate::platform::Platform;
use crate::primitive::{AtomicBool, AtomicU32, AtomicU64, constant};
use crate::registry::{Node, Registry};

/// Objects of a thread that are worth a look, if one is due.
const SCAN_IF_DUE_AT: usize = 1024;
/// Objects of a thread that are worth one in any case.
const SCAN_AT: usize = 1 << 16;
/// For how many times the duration of the last look none is due: looks, each with a heavy fence that
/// takes some microseconds from each thread that runs, are for 6 % of the time at most.
const SCAN_BACKOFF: u32 = 16;
/// Objects that are freed at once: a thread that has deferred one must not stand still while it
/// frees a million, nor defer faster than it frees.
const FREED_AT_ONCE: usize = 1 << 14;

/// Sections, and what is deferred until those end that have begun before.
///
/// What is unlinked under one domain is waited for by the sections of that domain only: a structure
/// with a domain of its own does not wait for the readers of others.
#[derive(Debug)]
pub struct Domain<P> {
    platform: P,
    /// The write clock: what is sealed gets its value, and it goes on.
    global: Padded<AtomicU64>,
    /// What was sealed before is held by nobody.
    safe: Padded<AtomicU64>,
    /// When the next look is due, in the platform's time.
    next_scan: Padded<AtomicU64>,
    scan_backoff: AtomicU32,
    drain: Padded<Drain>,
    records: Registry<Record>,
}

/// The barrier that is under way.
#[derive(Debug)]
struct Drain {
    busy: AtomicBool,
    /// How many objects it has taken out of records.
    weight: AtomicU64,
}

/// A moment, to ask later whether all sections have ended that were there.
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
        /// A domain that nobody is in.
        pub fn new(platform: P) -> Domain<P> {
            Domain {
                platform,
                global: Padded(AtomicU64::new(ONE)),
                safe: Padded(AtomicU64::new(ONE)),
                next_scan: Padded(AtomicU64::new(0)),
                scan_backoff: AtomicU32::new(SCAN_BACKOFF),
                drain: Padded(Drain {
                    busy: AtomicBool::new(false),
                    weight: AtomicU64::new(0),
                }),
                records: Registry::new(),
            }
        }
    }

    /// The system that it runs on.
    pub fn platform(&self) -> &P {
        &self.platform
    }

    /// For how long nobody looks for reclamation alone after the last look: for so many times what that
    /// took; 16 unless it is set.
    ///
    /// A look has a heavy fence, which interrupts all threads that run for some microseconds. A short
    /// pause makes readers slower, and a long one keeps more garbage. Where nobody is interrupted a
    /// look takes less than a microsecond, and so the pause is short as well. Who waits, as in
    /// [`synchronize`](Domain::synchronize), does not wait for the end of the pause.
    pub fn set_scan_backoff(&self, times: u32) {
        self.scan_backoff.store(times, Relaxed);
    }

    /// Adds a free record, for a handle or a section. An embedder without an allocator adds one for each
    /// CPU, and one for each section that it holds at a time. A record is free again when its handle or
    /// section is dropped.
    ///
    /// # Panics
    /// If the node was added before, here or elsewhere.
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

    /// The write clock.
    #[inline]
    pub(super) fn global_epoch(&self) -> &AtomicU64 {
        &self.global
    }

    /// Moves the write clock on; what was unlinked before is tagged with what it was.
    fn advance(&self) -> u64 {
        // A read-modify-write reads the latest value and is read by all later ones, so a reader with
        // a later time has seen it, and (Release) what was unlinked before. AcqRel keeps the unlinking
        // stores of this thread before it.
        self.global.fetch_add(ONE, order!(AcqRel, "epoch_tag"))
    }

    /// Waits until all sections have ended that had begun before it was called: `epoch_wait`,
    /// `synchronize_rcu`.
    ///
    /// On a process's system a long wait sleeps ([`Platform::sleep_while`]): it ends up to a quarter
    /// later than the last of those sections, and 10 ms later at most. Readers do nothing for that.
    ///
    /// A thread that is in a section itself waits for ever; [`Handle::synchronize`] and
    /// [`synchronize`](super::synchronize) notice that.
    pub fn synchronize(&self) {
        self.wait(self.cookie());
    }

    /// The moment now, for [`Domain::poll`] and [`Domain::wait`].
    pub fn cookie(&self) -> Cookie {
        Cookie(self.advance())
    }

    /// Whether all sections have ended that had begun before `cookie` was made. It does not wait, but
    /// looks, which costs a heavy fence if nobody else has looked since.
    pub fn poll(&self, cookie: Cookie) -> bool {
        self.is_over(cookie) || self.fence_and_scan() > cookie.0
    }

    /// Waits until [`Domain::poll`] is true.
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
        // Acquire: what sections read that have ended was read before.
        self.safe.load(order!(Acquire, "epoch_over")) > tag.saturating_sub(early())
    }

    /// Looks who is in a section; returns the read clock: what was sealed before is held by nobody.
    fn fence_and_scan(&self) -> u64 {
        self.scan(self.fence())
    }

    /// The write clock before a heavy fence: what has a smaller tag was unlinked before the fence.
    fn fence(&self) -> u64 {
        // Relaxed: the heavy fence acquires, with the release of `tag`.
        let now = self.global.load(Relaxed);
        if !is_mutant!("no_fence") {
            self.platform.heavy();
        }
        now
    }

    /// Looks who is in a section after a fence, and moves the read clock on, to `fenced` at most.
    ///
    /// A reader is seen here, or its word was stored after the fence. Then its loads came after the
    /// fence as well, and see what was unlinked before: it holds nothing with a tag below `fenced`.
    /// A reader that is seen holds nothing with a tag below its own time, see `Reader::enter`. One
    /// that has loaded the clock long ago and stored its word just now has a time below the read
    /// clock, which stays where it is: what is sealed from now on has a greater tag than either.
    fn scan(&self, fenced: u64) -> u64 {
        let mut oldest = fenced;
        for record in self.records.values() {
            let Some(time) = epoch_of(record.reader.word()) else { continue };
            // A section that began at `fenced` or later may begin again at that time, see `Watch::observe`.
            if time < fenced || is_mutant!("epoch_note_any") {
                record.watch.observe(time, || self.platform.now());
            }
            oldest = oldest.min(time);
        }
        // AcqRel: who sees the new value frees after all that this scan has seen.
        self.safe.fetch_max(oldest, order!(AcqRel, "epoch_read")).max(oldest)
    }

    /// The sections that are there now and were seen for the first time at least `age` ago. The longest
    /// of them is the one that reclamation waits for.
    ///
    /// Sections are seen by scans: this function scans, and so do waiting and reclamation. To watch a
    /// domain, call it now and then. A section may have begun long before a scan sees it, so a stall may
    /// be reported as shorter than it is. It is never longer.
    pub fn stalls(&self, age: Duration) -> impl Iterator<Item = Stall> {
        // Sections that have begun before get an earlier time than those to come: so this scan can note
        // them, see `Watch::observe`.
        self.advance();
        self.fence_and_scan();
        let now = self.platform.now();
        let stalls = self.records.values().filter_map(move |record| record.stall(now));
        stalls.filter(move |stall| stall.since >= age)
    }

    /// Objects that wait, as far as their threads have said: each says it for every hundred or so.
    pub fn garbage(&self) -> u64 {
        let waiting = self.records.values().map(|record| record.watch.weight.load(Relaxed));
        waiting.sum::<u64>() + self.drain.weight.load(Relaxed)
    }

    /// Seals what the owner of a record has open; frees what is ready.
    ///
    /// # Safety
    /// By the record's owner.
    #[cold]
    pub(super) unsafe fn seal(&self, record: &Record) {
        // SAFETY: the caller owns the record; `tag` does not come back here.
        let sealed = unsafe {
            record.garbage.lock_owner(&self.platform, |garbage| {
                garbage.seal(|| self.advance());
                record.watch.weight.store(garbage.weight() as u64, Relaxed);
                garbage.sealed()
            })
        };
        // What a scan has found ready long ago costs no fence.
        // SAFETY: as above.
        let freed = unsafe { self.free(record) };
        if freed > 0 || sealed < SCAN_IF_DUE_AT {
            return;
        }
        if self.scan_if_due(sealed >= SCAN_AT) {
            // SAFETY: as above.
            unsafe { self.free(record) };
        }
    }

    /// Looks who is in a section, and frees what is ready of records that nobody has: if it is urgent or
    /// the last look was long enough ago. Whether it did.
    fn scan_if_due(&self, is_urgent: bool) -> bool {
        let before = self.platform.now();
        let is_due = is_urgent || before >= self.next_scan.load(Relaxed);
        if is_due {
            self.fence_and_scan();
            self.adopt();
            let after = self.platform.now();
            let pause = u64::from(self.scan_backoff.load(Relaxed)) * after.saturating_sub(before);
            self.next_scan.store(after + pause, Relaxed);
        }
        is_due
    }

    /// Seals, and looks and frees if a look is due.
    ///
    /// # Safety
    /// By the record's owner.
    #[cfg(feature = "std")]
    pub(super) unsafe fn reclaim_if_due(&self, record: &Record) {
        // SAFETY: the caller owns the record; `tag` does not come back here.
        unsafe {
            record.garbage.lock_owner(&self.platform, |garbage| garbage.seal(|| self.advance()))
        };
        if self.scan_if_due(false) {
            // SAFETY: as above.
            unsafe { self.free(record) };
        }
    }

    /// Seals, looks once, and frees what is ready.
    ///
    /// # Safety
    /// By the record's owner.
    pub(super) unsafe fn reclaim(&self, record: &Record) {
        // SAFETY: the caller owns the record.
        unsafe {
            record.garbage.lock_owner(&self.platform, |garbage| garbage.seal(|| self.advance()));
            self.fence_and_scan();
            while self.free(record) > 0 {}
        }
        self.adopt();
    }

    /// In the child of a fork, whose only thread has `lock_owner`: the others are not there.
    #[cfg(all(unix, feature = "std", not(any(loom, miri))))]
    pub(super) fn forked(&self, own: Option<&Node<Record>>) {
        for record in self.records.values() {
            // SAFETY: this is the only thread. It is not inside a record's garbage, where nothing calls
            // fork(2). A signal handler may fork there with _Fork(3) alone, which does not come here: since
            // POSIX.1-2024 fork(2) is not async-signal-safe.
            unsafe { record.garbage.forked(Garbage::new()) };
        }
        let migrates = |node: &&Node<Record>| node.value.watch.migrates.load(Relaxed);
        for node in self.records.others(own).filter(|node| !migrates(node)) {
            node.value.reader.abandon();
            node.value.watch.end_calls();
            node.release();
        }
        self.drain.weight.store(0, Relaxed);
        self.drain.busy.store(false, Relaxed);
    }

    /// Frees some of a record's garbage that is ready; returns how many objects.
    ///
    /// # Safety
    /// By the record's owner.
    unsafe fn free(&self, record: &Record) -> usize {
        // What is called may defer, and come back here.
        let Some(_calls) = record.watch.begin_calls() else { return 0 };
        // Acquire: what is called comes after all that sections read, whoever has looked.
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
        // SAFETY: it was taken because its tag is below the read clock.
        unsafe { ready.call() };
        freed
    }

    /// Frees what is ready of records that nobody has.
    fn adopt(&self) {
        let left = |node: &&Node<Record>| node.value.watch.weight.load(Relaxed) > 0;
        for node in self.records.nodes().filter(left) {
            if node.try_take() || is_mutant!("epoch_adopts_all") {
                // SAFETY: it is ours until it is given back.
                unsafe { self.free(&node.value) };
                node.release();
            }
        }
    }

    /// Waits until all has been called that was deferred before it was called, by any thread:
    /// `epoch_drain_callbacks`, `rcu_barrier`. Not to be called in a section, nor by what is called.
    ///
    /// It calls what it finds itself, after one grace period for all of it. It executes two heavy fences,
    /// whatever the number of threads. Barriers of one domain run one after the other. Like
    /// [`synchronize`](Domain::synchronize), it sleeps while it waits for long.
    ///
    /// # Panics
    /// If something panics that it calls, when all else has been called.
    pub fn barrier(&self) {
        /// The end of a barrier, also by a panic.
        struct Draining<'a>(&'a Drain);

        impl Drop for Draining<'_> {
            fn drop(&mut self) {
                self.0.weight.store(0, Relaxed);
                // Release: what was called is seen by the next barrier.
                self.0.busy.store(false, order!(Release, "epoch_drained"));
            }
        }

        let drain = &*self.drain;
        // Relaxed: the heavy fence of `take_all` acquires what the barrier before has called.
        let take = || drain.busy.compare_exchange(false, true, Relaxed, Relaxed);
        self.platform.sleep_while(|| take().is_err());
        let _draining = Draining(drain);
        let all = self.take_all();
        drain.weight.store(all.weight as u64, Relaxed);
        // All that was taken out was unlinked before the clock moves on here.
        self.wait(self.cookie());
        // SAFETY: all sections have ended that may have found it.
        unsafe { all.call() };
        // What owners took before has to end as well.
        for record in self.records.values() {
            record.watch.wait_for_calls(&self.platform);
        }
    }

    /// Takes all garbage out of all records. One fence serves them all: owners that come to their garbage
    /// wait from the announcement of the first one to the end of their own visit, which is about as long
    /// as the fence takes. Only a barrier does this, and one at a time, so no two threads announce in
    /// different orders.
    fn take_all(&self) -> Queue {
        // A record that is added from now on has nothing that was deferred before.
        let records = self.records.snapshot();
        for record in records.clone() {
            record.garbage.request(&self.platform);
        }
        if !is_mutant!("epoch_drain_no_fence") {
            self.platform.heavy();
        }
        let mut all = Queue::EMPTY;
        for record in records {
            // SAFETY: it was announced, and the fence came after that.
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

/// A mutant frees what was unlinked one step too early.
fn early() -> u64 {
    if is_mutant!("early") { ONE } else { 0 }
}

impl<P> Drop for Domain<P> {
    fn drop(&mut self) {
        // Handles and sections borrow the domain: there are none, and all is ready.
        for record in self.records.values() {
            loop {
                // SAFETY: the domain is exclusively ours.
                let all = unsafe {
                    record.garbage.unguarded(|garbage| {
                        garbage.seal(|| 0);
                        garbage.take_ready(u64::MAX, usize::MAX)
                    })
                };
                if all.is_empty() {
                    break;
                }
                // SAFETY: nobody is in a section any more.
                unsafe { all.call() };
            }
        }
    }
}
