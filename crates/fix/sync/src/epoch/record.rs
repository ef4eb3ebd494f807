//! A thread or a section, as those see it who wait.

use core::cell::Cell;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::time::Duration;

use super::clock::{NESTING, ONE};
use super::garbage::Garbage;
use crate::biased::Biased;
use crate::mutant::{is_mutant, order};
use crate::padded::Padded;
use crate::platform::{Platform, light};
use crate::primitive::{AtomicBool, AtomicU64, constant};

/// A section that has not ended for some time, see [`Domain::stalls`](super::Domain::stalls).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stall {
    /// Its thread, as the platform numbers it; of a [`Section`](super::Section) the one that began it.
    pub thread: u64,
    /// The time since a scan has seen it first.
    pub since: Duration,
}

/// Who may be in a section.
#[derive(Debug)]
pub struct Record {
    pub(super) reader: Padded<Reader>,
    pub(super) garbage: Padded<Biased<Garbage>>,
    pub(super) watch: Padded<Watch>,
}

/// The line that scanners read and that its owner writes.
#[derive(Debug)]
pub(super) struct Reader {
    /// 0 outside of sections; inside, what the write clock was, with the depth of nesting in its low
    /// bits. One word: what a signal handler does between any two instructions leaves it as it was.
    word: AtomicU64,
    /// A copy of the platform's answer, which costs no line of its own here.
    is_symmetric: Cell<bool>,
}

/// What scanners and those who wait write.
#[derive(Debug)]
pub(super) struct Watch {
    /// The owner's thread.
    pub(super) thread: AtomicU64,
    /// It is of a section that may go from thread to thread.
    pub(super) migrates: AtomicBool,
    /// When the section began that a scan has seen last, on the write clock; 0 if none has seen one.
    seen: AtomicU64,
    /// The platform's time when `seen` was there, or later. It never goes back.
    since: AtomicU64,
    /// How many objects its garbage has, as far as is known.
    pub(super) weight: AtomicU64,
    /// How often the owner has begun or ended to call what it has deferred: odd while it does.
    calls: AtomicU64,
}

// SAFETY: the cells are the owner's alone, of which there is one at any time; whoever becomes it
// takes the record's node after the last one has given it back.
unsafe impl Sync for Record {}

impl Record {
    constant! {
        /// A record that nobody has.
        pub fn new() -> Record {
            Record {
                reader: Padded(Reader {
                    word: AtomicU64::new(0),
                    is_symmetric: Cell::new(true),
                }),
                garbage: Padded(Biased::new(Garbage::new())),
                watch: Padded(Watch {
                    thread: AtomicU64::new(0),
                    migrates: AtomicBool::new(false),
                    seen: AtomicU64::new(0),
                    since: AtomicU64::new(0),
                    weight: AtomicU64::new(0),
                    calls: AtomicU64::new(0),
                }),
            }
        }
    }

    /// Makes it a thread's, or that of a section which may go from thread to thread.
    pub(super) fn begin(&self, platform: &impl Platform, migrates: bool) {
        // Release: see `Record::stall`.
        self.watch.thread.store(platform.thread(), order!(Release, "epoch_thread"));
        self.watch.migrates.store(migrates, Relaxed);
        self.reader.is_symmetric.set(platform.is_symmetric());
    }

    /// The section that is there now, and has been seen by an earlier scan.
    pub(super) fn stall(&self, now: u64) -> Option<Stall> {
        let watch = &self.watch;
        let there = epoch_of(self.reader.word())?;
        // Acquire: with the Release in `Watch::observe`, `since` is that of this section or later.
        if watch.seen.load(order!(Acquire, "epoch_seen")) != there {
            return None;
        }
        let since = Duration::from_nanos(now.saturating_sub(watch.since.load(Relaxed)));
        // Acquire, with the Release in `begin`: if the record has a new owner, the section of the owner
        // before is over in the word that is loaded next. So the thread is that of the section in the
        // first word or in the second, and `Watch::observe` holds for both.
        let thread = watch.thread.load(order!(Acquire, "epoch_stall"));
        (epoch_of(self.reader.word()) == Some(there)).then_some(Stall { thread, since })
    }
}

impl Watch {
    /// Notes that a section is there that began at `time` on the write clock, if no other scan has.
    /// `now` is called after the section was seen.
    ///
    /// The scan's heavy fence came after the write clock had moved beyond `time`: from that fence on
    /// nobody loads `time` from the clock. So all sections of this record that began at `time` began
    /// before `now`, whoever owns the record; and one that is seen later with the same time has been there
    /// since.
    ///
    /// Several scans may come here at once. Each stores `since` before `seen`, and `since` never goes
    /// back, so that it is not that of an earlier section. It may be that of a later one: then the stall
    /// is reported as shorter than it is.
    pub(super) fn observe(&self, time: u64, now: impl FnOnce() -> u64) {
        if self.seen.load(Relaxed) != time {
            self.since.fetch_max(now(), Relaxed);
            self.seen.store(time, order!(Release, "epoch_note"));
        }
    }
}

impl Watch {
    /// The owner calls what it has deferred, until the result is dropped; none if it does so already.
    pub(super) fn begin_calls(&self) -> Option<Calling<'_>> {
        let calls = self.calls.load(Relaxed);
        calls.is_multiple_of(2).then(|| {
            self.set_calls(calls + 1);
            Calling(self)
        })
    }

    /// The owner's calls have ended, or the owner is not there in the child of a fork.
    pub(super) fn end_calls(&self) {
        let calls = self.calls.load(Relaxed);
        self.set_calls(calls + calls % 2);
    }

    /// By the owner alone.
    fn set_calls(&self, calls: u64) {
        // Release: what the calls did is seen by a thread that sees their end, or the beginning of
        // later ones.
        self.calls.store(calls, order!(Release, "epoch_end_calls"));
    }

    /// Waits until those calls have ended that the owner has begun. The caller has visited the record's
    /// garbage: if the owner took something from there before, the visit made the beginning of its calls
    /// visible.
    pub(super) fn wait_for_calls(&self, platform: &impl Platform) {
        let calls = || self.calls.load(order!(Acquire, "epoch_ended"));
        let begun = calls();
        // A wait until no call is made might never end: the owner may begin again and again.
        if begun % 2 == 1 && !is_mutant!("epoch_no_wait_for_calls") {
            platform.sleep_while(|| calls() == begun);
        }
    }
}

impl Default for Record {
    fn default() -> Record {
        Record::new()
    }
}

impl Reader {
    /// Enters a section; `clock` is the write clock.
    ///
    /// # Safety
    /// By the owner.
    #[inline]
    pub(super) unsafe fn enter(&self, clock: &AtomicU64) {
        let word = self.word.load(Relaxed);
        if word != 0 {
            assert!(word & NESTING != NESTING, "{NESTING} guards of one thread at once");
            self.word.store(word + 1, Relaxed);
            return;
        }
        // Acquire: who sees a time after an object was sealed sees that it was unlinked before.
        // Release: a scan that sees this word, and not the 0 before it, must not free before what was
        // read in the section before.
        // In a mutant, readers begin later than they do.
        let future = if is_mutant!("future") { ONE } else { 0 };
        let now = clock.load(order!(Acquire, "epoch_enter_clock")) + future;
        self.word.store(now | 1, order!(Release, "epoch_enter"));
        // With the heavy fence of `Domain::scan`: either the scan sees the word, and waits for us, or
        // our loads from here on see what was unlinked before that fence.
        light(self.is_symmetric.get());
    }

    /// Leaves it.
    ///
    /// # Safety
    /// By the owner, once for each time that it has entered.
    #[inline]
    pub(super) unsafe fn exit(&self) {
        let word = self.word.load(Relaxed);
        let left = if word & NESTING == 1 { 0 } else { word - 1 };
        // Release: what was read in the section was read before the scan that sees this.
        self.word.store(left, order!(Release, "epoch_leave"));
    }

    /// Leaves a section and enters another one at once, if it is in one alone.
    ///
    /// # Safety
    /// By the owner.
    #[inline]
    pub(super) unsafe fn refresh(&self, clock: &AtomicU64) {
        if self.word.load(Relaxed) & NESTING == 1 {
            let now = clock.load(order!(Acquire, "epoch_refresh_clock"));
            self.word.store(now | 1, order!(Release, "epoch_refresh"));
            light(self.is_symmetric.get());
        }
    }

    #[inline]
    pub(super) fn is_inside(&self) -> bool {
        self.word.load(Relaxed) != 0
    }

    /// The word, for scanners.
    pub(super) fn word(&self) -> u64 {
        self.word.load(order!(Acquire, "epoch_look"))
    }

    /// In a child after a fork: its thread is not there.
    #[cfg(all(unix, feature = "std", not(any(loom, miri))))]
    pub(super) fn abandon(&self) {
        self.word.store(0, Relaxed);
    }
}

/// While an owner calls what it has deferred.
pub(super) struct Calling<'a>(&'a Watch);

impl Drop for Calling<'_> {
    fn drop(&mut self) {
        self.0.end_calls();
    }
}

/// When the section began that a word stands for, on the write clock; none outside of sections.
pub(super) fn epoch_of(word: u64) -> Option<u64> {
    (word != 0).then_some(word / ONE * ONE)
}
