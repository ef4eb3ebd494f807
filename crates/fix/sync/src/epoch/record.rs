//! Records. A record is the state of a thread or of a section; scans read the records.

use core::cell::Cell;
use core::ptr;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::time::Duration;

use super::garbage::Garbage;
use crate::biased::Biased;
use crate::calls::Calls;
use crate::mutant::{is_mutant, order};
use crate::padded::Padded;
use crate::platform::{Platform, light};
use crate::primitive::{AtomicBool, AtomicPtr, AtomicU64, constant};

/// The global epoch advances by this amount, a single bit. In a reader's word, the bits below this bit
/// count the thread's nested guards.
pub(super) const ONE: u64 = 1 << 12;
/// The bits below [`ONE`]. The epoch has the other 52 bits. Even if the epoch advanced once per microsecond,
/// 52 bits would last for 142 years.
const NESTING: u64 = ONE - 1;

/// A section that has not ended for some time; see [`Domain::stalls`](super::Domain::stalls).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stall {
    /// The platform's number for the section's thread. For a [`Section`](super::Section), this is the thread
    /// that began it.
    pub thread: u64,
    /// The time since a scan first saw the section.
    pub since: Duration,
}

/// The state of a reader, which is a registered thread or a section with a record of its own.
#[derive(Debug)]
pub struct Record {
    pub(super) reader: Padded<Reader>,
    pub(super) garbage: Padded<Biased<Garbage>>,
    pub(super) watch: Padded<Watch>,
}

/// The cache line that is written by the owner and read by scans.
#[derive(Debug)]
pub(super) struct Reader {
    /// 0 outside of sections. In a section, the global epoch at the section's start, with the nesting depth
    /// in the low bits. A signal handler may enter and leave a section between any two instructions of the
    /// owner: sections change only this word, and the handler restores the word before it returns.
    word: AtomicU64,
    /// A copy of `Platform::is_symmetric`, so that readers load no other cache line for it.
    is_symmetric: Cell<bool>,
}

/// The cache lines that threads other than the owner may write, for example in a scan.
#[derive(Debug)]
pub(super) struct Watch {
    /// The owner's thread.
    pub(super) thread: AtomicU64,
    /// Whether the child of a fork must keep the record: true if the owner is a section, or a handle that the
    /// user registered. Any thread may hold this section or handle, even the thread that forks.
    pub(super) is_kept: AtomicBool,
    /// The record of the thread that has adopted this record to free the objects in it.
    pub(super) adopter: AtomicPtr<Record>,
    /// The epoch of the last section that a scan saw; 0 if no scan has seen a section yet.
    seen: AtomicU64,
    /// The platform's time when `seen` was stored, or a later time. This time never goes backward.
    since: AtomicU64,
    /// The number of objects in the record's garbage, as of the owner's last update.
    pub(super) weight: AtomicU64,
    /// Whether the owner is calling destructors and deferred functions.
    pub(super) calls: Calls,
}

// SAFETY: a record has one owner at a time, and only the owner uses the cells. A new owner sees everything
// that the previous owner did before the node was released.
unsafe impl Sync for Record {}

impl Record {
    constant! {
        /// A record without an owner.
        pub fn new() -> Record {
            Record {
                reader: Padded(Reader {
                    word: AtomicU64::new(0),
                    is_symmetric: Cell::new(true),
                }),
                garbage: Padded(Biased::new(Garbage::new())),
                watch: Padded(Watch {
                    thread: AtomicU64::new(0),
                    is_kept: AtomicBool::new(false),
                    adopter: AtomicPtr::new(ptr::null_mut()),
                    seen: AtomicU64::new(0),
                    since: AtomicU64::new(0),
                    weight: AtomicU64::new(0),
                    calls: Calls::new(),
                }),
            }
        }
    }

    /// Assigns the record to the calling thread. `is_kept` says whether the child of a fork must keep the
    /// record.
    pub(super) fn begin(&self, platform: &impl Platform, is_kept: bool) {
        // Release: see `Record::stall`.
        self.watch.thread.store(platform.thread(), order!(Release, "epoch_thread"));
        self.watch.is_kept.store(is_kept, Relaxed);
        self.reader.is_symmetric.set(platform.is_symmetric());
    }

    /// The current section, if an earlier scan has seen it.
    pub(super) fn stall(&self, now: u64) -> Option<Stall> {
        let watch = &self.watch;
        let there = epoch_of(self.reader.word())?;
        // Acquire: pairs with the Release in `Watch::observe`, so the value of `since` loaded below belongs
        // to this section or to a later one.
        if watch.seen.load(order!(Acquire, "epoch_seen")) != there {
            return None;
        }
        let since = Duration::from_nanos(now.saturating_sub(watch.since.load(Relaxed)));
        // Acquire, with the Release in `begin`: if this load returns a new owner's thread, the second load of
        // the word sees that the previous owner's section has ended. So `thread` belongs either to the
        // section that the first load of the word saw, or to the section that the second load sees. If these
        // are two sections with the same epoch, `since` is right for both of them (see `Watch::observe`).
        let thread = watch.thread.load(order!(Acquire, "epoch_stall"));
        (epoch_of(self.reader.word()) == Some(there)).then_some(Stall { thread, since })
    }
}

impl Watch {
    /// Records that a section with this epoch exists, unless another scan has recorded it. `now` is called
    /// after the scan has seen the section.
    ///
    /// The scan executed its heavy fence after the global epoch had advanced beyond `epoch`. After that
    /// fence, no thread finds `epoch` in the global epoch, so no section begins with this epoch any more. So
    /// all sections of this record with this epoch began before the call of `now`, whichever owner they
    /// belong to, and even if only a later scan sees them.
    ///
    /// Several scans may run at the same time. Each scan stores `since` before `seen`, and `since` never goes
    /// backward, so `since` is not the time of an earlier section. But `since` may be the time of a later
    /// section; in that case, the stall is reported as shorter than it is.
    pub(super) fn observe(&self, epoch: u64, now: impl FnOnce() -> u64) {
        if self.seen.load(Relaxed) != epoch {
            self.since.fetch_max(now(), Relaxed);
            self.seen.store(epoch, order!(Release, "epoch_note"));
        }
    }
}

impl Default for Record {
    fn default() -> Record {
        Record::new()
    }
}

impl Reader {
    /// Enters a section.
    ///
    /// # Safety
    /// Must be called by the owner.
    #[inline]
    pub(super) unsafe fn enter(&self, global: &AtomicU64) {
        let word = self.word.load(Relaxed);
        if word != 0 {
            assert!(word & NESTING != NESTING, "a thread has at most {NESTING} guards at once");
            self.word.store(word + 1, Relaxed);
            return;
        }
        // Acquire: a reader with an epoch above an object's tag sees that the object was unlinked. Release: a
        // scan may see this word and miss the 0 that ended the previous section. Even then, the reads of that
        // section must come before the frees that follow the scan. In one mutant, readers enter a future
        // epoch.
        let future = if is_mutant!("future") { ONE } else { 0 };
        let now = global.load(order!(Acquire, "epoch_enter_clock")) + future;
        self.word.store(now | 1, order!(Release, "epoch_enter"));
        // This pairs with the heavy fence before `Domain::scan`: either the scan sees the word and waits
        // for this reader, or the reader's loads from here on see everything that was unlinked before that
        // fence.
        light(self.is_symmetric.get());
    }

    /// Leaves a section.
    ///
    /// # Safety
    /// Must be called by the owner, once for each `enter`.
    #[inline]
    pub(super) unsafe fn exit(&self) {
        let word = self.word.load(Relaxed);
        let left = if word & NESTING == 1 { 0 } else { word - 1 };
        // Release: the reads of the section come before any scan that sees this store.
        self.word.store(left, order!(Release, "epoch_leave"));
    }

    /// Leaves the section and immediately enters another, unless sections are nested.
    ///
    /// # Safety
    /// Must be called by the owner.
    #[inline]
    pub(super) unsafe fn refresh(&self, global: &AtomicU64) {
        if self.word.load(Relaxed) & NESTING == 1 {
            let now = global.load(order!(Acquire, "epoch_refresh_clock"));
            self.word.store(now | 1, order!(Release, "epoch_refresh"));
            light(self.is_symmetric.get());
        }
    }

    #[inline]
    pub(super) fn is_inside(&self) -> bool {
        self.word.load(Relaxed) != 0
    }

    /// The word, loaded with the ordering that a scan needs.
    pub(super) fn word(&self) -> u64 {
        self.word.load(order!(Acquire, "epoch_look"))
    }

    /// Leaves all sections of an owner that is missing in the child of a fork.
    #[cfg(all(unix, feature = "std", not(any(loom, miri))))]
    pub(super) fn abandon(&self) {
        self.word.store(0, Relaxed);
    }
}

/// The epoch in a word; `None` outside of sections.
pub(super) fn epoch_of(word: u64) -> Option<u64> {
    (word != 0).then_some(word / ONE * ONE)
}
