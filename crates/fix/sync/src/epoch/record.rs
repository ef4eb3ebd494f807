//! A thread or a section, as those see it who wait.

use core::cell::Cell;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use super::clock::{NESTING, ONE};
use super::garbage::Garbage;
use crate::biased::Biased;
use crate::mutant::{is_mutant, order};
use crate::padded::Padded;
use crate::platform::{Platform, light};
use crate::primitive::{AtomicBool, AtomicU64, constant};

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
    /// The owner calls what it has deferred.
    calling: Cell<bool>,
}

/// What scanners and those who wait write.
#[derive(Debug)]
pub(super) struct Watch {
    /// The owner's thread.
    pub(super) thread: AtomicU64,
    /// It is of a section that may go from thread to thread.
    pub(super) travels: AtomicBool,
    /// The word that scanners have seen last, and when they saw it first.
    pub(super) seen: AtomicU64,
    pub(super) since: AtomicU64,
    /// How many objects its garbage has, as far as is known.
    pub(super) weight: AtomicU64,
    /// Calls of its garbage that have begun and ended.
    pub(super) begun: AtomicU64,
    pub(super) ended: AtomicU64,
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
                    calling: Cell::new(false),
                }),
                garbage: Padded(Biased::new(Garbage::new())),
                watch: Padded(Watch {
                    thread: AtomicU64::new(0),
                    travels: AtomicBool::new(false),
                    seen: AtomicU64::new(0),
                    since: AtomicU64::new(0),
                    weight: AtomicU64::new(0),
                    begun: AtomicU64::new(0),
                    ended: AtomicU64::new(0),
                }),
            }
        }
    }

    /// Makes it a thread's, or that of a section which may go from thread to thread.
    pub(super) fn begin(&self, platform: &impl Platform, travels: bool) {
        self.watch.thread.store(platform.thread(), Relaxed);
        self.watch.travels.store(travels, Relaxed);
        self.reader.is_symmetric.set(platform.is_symmetric());
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
    pub(super) unsafe fn leave(&self) {
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

    /// The owner calls what it has deferred, until the result is dropped; none if it does so already.
    pub(super) fn begin_calling(&self) -> Option<Calling<'_>> {
        (!self.calling.replace(true)).then_some(Calling(&self.calling))
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
pub(super) struct Calling<'a>(&'a Cell<bool>);

impl Drop for Calling<'_> {
    fn drop(&mut self) {
        self.0.set(false);
    }
}

/// When the section began that a word tells of; none outside.
pub(super) fn began(word: u64) -> Option<u64> {
    (word != 0).then_some(word / ONE * ONE)
}
