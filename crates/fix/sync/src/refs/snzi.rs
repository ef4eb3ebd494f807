//! A scalable non-zero indicator: "is anybody there?", and never how many.

use alloc::boxed::Box;
use core::fmt;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};

use crate::mutant::{is_mutant, order};
use crate::padded::Padded;
use crate::primitive::AtomicU64;

/// Children of a node. More make the way to the root shorter, and the fights on it harder.
const FAN_OUT: usize = 8;

/// A word: a count, a flag and a version, which exchanges replace together.
///
/// In a node the flag is the paper's "one half": the first to arrive is on its way to the parent, and
/// the count is zero. In the root it is the paper's announcement: the indicator may not be set yet. In
/// the indicator it is what it indicates. 32 bits of version are enough, as the thread that is to be
/// fooled would have to sleep through 2^32 changes, no more and no less.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Word {
    count: u32,
    flag: bool,
    version: u32,
}

impl Word {
    fn pack(self) -> u64 {
        debug_assert!(self.count < 1 << 31);
        u64::from(self.version) << 32 | u64::from(self.count) << 1 | u64::from(self.flag)
    }

    fn unpack(word: u64) -> Word {
        Word { count: word as u32 >> 1, flag: word & 1 != 0, version: (word >> 32) as u32 }
    }
}

#[derive(Debug)]
struct AtomicWord(AtomicU64);

impl Default for AtomicWord {
    fn default() -> AtomicWord {
        AtomicWord(AtomicU64::new(0))
    }
}

impl AtomicWord {
    fn load(&self) -> Word {
        Word::unpack(self.0.load(order!(Acquire, "snzi_load")))
    }

    /// AcqRel everywhere: whoever finds a count that is not zero need not go up, because the one who
    /// made it so has been there; the exchange hands that on.
    fn replace(&self, old: Word, new: Word) -> bool {
        self.0
            .compare_exchange(old.pack(), new.pack(), order!(AcqRel, "snzi_replace"), Relaxed)
            .is_ok()
    }
}

/// An indicator that threads arrive at and depart from, and that says whether any is there.
///
/// [`query`](Snzi::query) is one load of a line that is written only when the answer changes. To
/// arrive and depart costs two atomic exchanges on a leaf; who finds its leaf in use does not touch
/// its parent. With a leaf for each CPU, threads share nothing as long as somebody is there.
///
/// Use it where the question needs an answer that is true *now* and is asked often: the readers of a
/// lock, transactions in flight. Where the question may cost an interrupt, threads that only mark a
/// line of their own are ten times as fast as it is; where the answer may come late,
/// [`refcache`](super::refcache) is.
///
/// A query that comes after an arrival has returned and before its departure is called is true. One
/// that comes when all departures have returned, and before anybody else arrives, is false.
///
/// Each leaf and each inner node has 128 bytes.
///
/// ```
/// use knee_sync::refs::Snzi;
///
/// let readers = Snzi::new(4);
/// let arrival = readers.arrive_at(3);
/// assert!(readers.query());
/// drop(arrival);
/// assert!(!readers.query());
/// ```
///
/// # How it works
/// A node counts those who arrived there, and the node itself arrives at its parent when its count
/// leaves zero, and departs from it when the count is zero again. The first to arrive cannot change
/// node and parent at once: if it went to the parent first, each of many who come together would; if
/// it changed the node first, the second would think that the root knows. So it first sets the count
/// to *one half*. Whoever finds that goes to the parent as well, and then tries to make it one; who
/// fails has arrived at the parent once too often, and departs again.
///
/// The root tells the indicator, which is another word so that queries do not touch the count. It
/// sets it after its count left zero (whoever comes before that is done helps), and unsets it after
/// the count came to zero, unless somebody has arrived since: the version tells.
///
/// Source: F. Ellen, Y. Lev, V. Luchangco and M. Moir, "SNZI: Scalable NonZero Indicators", PODC 2007.
/// The indicator's load-linked and store-conditional are an exchange with a version here.
#[derive(Debug)]
pub struct Snzi {
    indicator: Padded<AtomicWord>,
    root: Padded<AtomicWord>,
    /// A heap: the children of place `i` are at `FAN_OUT * i + 1` and following, the root is place 0,
    /// and place `i` is `nodes[i - 1]`.
    nodes: Box<[Padded<AtomicWord>]>,
    /// The first leaf's place; those after it are leaves, too.
    first_leaf: usize,
}

impl Snzi {
    /// An indicator with at least so many leaves, of which each thread should have one for itself.
    pub fn new(leaves: usize) -> Snzi {
        let leaves = leaves.max(1);
        // A node has children if the first of them is there.
        let first_leaf = |nodes: usize| nodes.div_ceil(FAN_OUT).max(1);
        let nodes = (leaves..).find(|&nodes| nodes + 1 - first_leaf(nodes) >= leaves);
        let nodes = nodes.expect("each node more is a leaf more, but for one in eight");
        Snzi {
            indicator: Padded::default(),
            root: Padded::default(),
            nodes: (0..nodes).map(|_| Padded::default()).collect(),
            first_leaf: first_leaf(nodes),
        }
    }

    /// Leaves that there are.
    pub fn leaves(&self) -> usize {
        self.nodes.len() + 1 - self.first_leaf
    }

    /// Whether anybody is there. If not, the caller sees what those did who were.
    #[inline]
    pub fn query(&self) -> bool {
        self.indicator.load().flag
    }

    /// Arrives at the leaf of this number, which wraps around. The departure is the arrival's drop, by
    /// any thread.
    pub fn arrive_at(&self, leaf: usize) -> Arrival<'_> {
        let place = self.first_leaf + leaf % self.leaves();
        self.arrive_at_node(place);
        Arrival { snzi: self, place }
    }

    /// Arrives at the leaf that belongs to the calling thread, and to few others.
    #[cfg(all(feature = "std", not(loom)))]
    #[inline]
    pub fn arrive(&self) -> Arrival<'_> {
        crate::number::with_number(|thread| self.arrive_at(thread))
    }

    fn arrive_at_node(&self, place: usize) {
        if place == 0 {
            return self.arrive_at_root();
        }
        let node = &self.nodes[place - 1];
        let parent = (place - 1) / FAN_OUT;
        let mut too_often = 0;
        loop {
            let mut word = node.load();
            if word.count > 0 {
                if node.replace(word, Word { count: word.count + 1, ..word }) {
                    break;
                }
                continue;
            }
            let mut arrived = false;
            if !word.flag {
                let half = Word { flag: true, version: word.version.wrapping_add(1), ..word };
                if !node.replace(word, half) {
                    continue;
                }
                (word, arrived) = (half, true);
            }
            // One half: ours, or that of one who needs help.
            self.arrive_at_node(parent);
            if !node.replace(word, Word { count: 1, flag: false, ..word }) {
                too_often += 1;
            }
            if arrived {
                break;
            }
        }
        if is_mutant!("snzi_stays") {
            return;
        }
        (0..too_often).for_each(|_| self.depart_from_node(parent));
    }

    fn depart_from_node(&self, place: usize) {
        if place == 0 {
            return self.depart_from_root();
        }
        let node = &self.nodes[place - 1];
        loop {
            let word = node.load();
            debug_assert!(word.count > 0, "more departures than arrivals");
            if node.replace(word, Word { count: word.count - 1, ..word }) {
                if word.count == 1 {
                    self.depart_from_node((place - 1) / FAN_OUT);
                }
                return;
            }
        }
    }

    fn arrive_at_root(&self) {
        let new = loop {
            let word = self.root.load();
            let new = match word.count {
                0 => Word { count: 1, flag: true, version: word.version.wrapping_add(1) },
                count => Word { count: count + 1, ..word },
            };
            if self.root.replace(word, new) {
                break new;
            }
        };
        if new.flag && (new.count == 1 || !is_mutant!("snzi_no_help")) {
            // The one who made it leave zero may not have done it yet.
            loop {
                let word = self.indicator.load();
                let set = Word { flag: true, version: word.version.wrapping_add(1), ..word };
                if self.indicator.replace(word, set) {
                    break;
                }
            }
            // If the root has changed meanwhile, whoever changed it has set the indicator, too, or
            // will, as it saw the flag.
            self.root.replace(new, Word { flag: false, ..new });
        }
    }

    fn depart_from_root(&self) {
        let old = loop {
            let word = self.root.load();
            debug_assert!(word.count > 0, "more departures than arrivals");
            // No flag: we arrived, so the indicator was set by us or before us.
            if self.root.replace(word, Word { count: word.count - 1, flag: false, ..word }) {
                break word;
            }
        };
        if old.count > 1 {
            return;
        }
        loop {
            // First the indicator, then the root. If somebody arrives between our two loads, the
            // second shows it. If it arrives later, it sets the indicator after our first load, and
            // our exchange fails, or after our exchange.
            let word = self.indicator.load();
            if !is_mutant!("snzi_unsets") && self.root.load().version != old.version {
                return;
            }
            let unset = Word { flag: false, version: word.version.wrapping_add(1), ..word };
            if self.indicator.replace(word, unset) {
                return;
            }
        }
    }
}

/// Somebody who is there, until it is dropped.
#[must_use = "it departs when it is dropped"]
pub struct Arrival<'a> {
    snzi: &'a Snzi,
    place: usize,
}

impl Drop for Arrival<'_> {
    fn drop(&mut self) {
        self.snzi.depart_from_node(self.place);
    }
}

impl fmt::Debug for Arrival<'_> {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.debug_struct("Arrival").field("leaf", &(self.place - self.snzi.first_leaf)).finish()
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    use std::sync::Barrier;
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
    use std::thread;

    const ROUNDS: usize = if cfg!(miri) { 30 } else { 20_000 };

    #[test]
    fn a_tree_has_the_leaves_that_were_asked_for() {
        for leaves in 1..if cfg!(miri) { 20 } else { 200 } {
            let snzi = Snzi::new(leaves);
            assert_eq!(snzi.leaves(), leaves);
            // Every way up ends at the root.
            let all: Vec<_> = (0..leaves).map(|leaf| snzi.arrive_at(leaf)).collect();
            assert!(snzi.query());
            drop(all);
            assert!(!snzi.query());
            assert!(snzi.nodes.iter().all(|node| node.load().count == 0));
            assert_eq!(snzi.root.load().count, 0);
        }
    }

    #[test]
    fn a_query_is_right_after_any_sequence_of_arrivals() {
        let snzi = Snzi::new(70);
        let mut there = Vec::new();
        let mut random = numbers(7);
        for _ in 0..ROUNDS {
            if there.is_empty() || random().is_multiple_of(2) {
                there.push(snzi.arrive_at(random()));
            } else {
                drop(there.swap_remove(random() % there.len()));
            }
            assert_eq!(snzi.query(), !there.is_empty());
        }
    }

    /// Numbers for a test: a linear congruential generator, Knuth's MMIX.
    fn numbers(seed: u64) -> impl FnMut() -> usize {
        let mut state = seed;
        move || {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) as usize
        }
    }

    #[test]
    fn a_query_is_true_until_the_last_departure() {
        const THREADS: usize = 4;
        // All on few leaves, and on leaves below an inner node.
        for leaves in [1, 2, 9] {
            let snzi = Snzi::new(leaves);
            let all = Barrier::new(THREADS);
            // Arrivals that returned minus departures that were called.
            let there = AtomicUsize::new(0);
            thread::scope(|scope| {
                for thread in 0..THREADS {
                    let (snzi, all, there) = (&snzi, &all, &there);
                    scope.spawn(move || {
                        for round in 0..ROUNDS {
                            let arrival = snzi.arrive_at(thread + round);
                            there.fetch_add(1, SeqCst);
                            assert!(snzi.query());
                            if round % 5 == thread {
                                let second = snzi.arrive();
                                drop(arrival);
                                assert!(snzi.query());
                                there.fetch_sub(1, SeqCst);
                                drop(second);
                            } else {
                                there.fetch_sub(1, SeqCst);
                                drop(arrival);
                            }
                            if round % (ROUNDS / 10) == 0 {
                                all.wait();
                                assert_eq!((there.load(SeqCst), snzi.query()), (0, false));
                                all.wait();
                            }
                        }
                    });
                }
            });
            assert!(!snzi.query());
            assert!(snzi.nodes.iter().all(|node| node.load().count == 0));
        }
    }
}

#[cfg(all(test, loom))]
mod modelled {
    use super::*;

    use std::sync::Arc;

    use crate::model::{check, thread};
    use crate::primitive::Cell;

    fn arrive_and_depart(snzi: &Snzi, leaf: usize) {
        let arrival = snzi.arrive_at(leaf);
        assert!(snzi.query(), "somebody has arrived");
        drop(arrival);
    }

    fn two_threads(leaves: [usize; 2]) {
        check(3, move || {
            let snzi = Arc::new(Snzi::new(2));
            let other = thread::spawn({
                let snzi = Arc::clone(&snzi);
                move || arrive_and_depart(&snzi, leaves[1])
            });
            arrive_and_depart(&snzi, leaves[0]);
            other.join().unwrap();
            assert!(!snzi.query(), "all have departed");
        });
    }

    #[test]
    fn two_threads_at_one_leaf() {
        two_threads([0, 0]);
    }

    #[test]
    fn two_threads_at_two_leaves() {
        two_threads([0, 1]);
    }

    #[test]
    fn three_threads_at_two_leaves() {
        check(1, || {
            let snzi = Arc::new(Snzi::new(2));
            let others = [0, 1].map(|leaf| {
                let snzi = Arc::clone(&snzi);
                thread::spawn(move || drop(snzi.arrive_at(leaf)))
            });
            arrive_and_depart(&snzi, 0);
            others.into_iter().for_each(|other| other.join().unwrap());
            assert!(!snzi.query(), "all have departed");
        });
    }

    #[test]
    fn a_false_query_acquires_the_departures() {
        check(3, || {
            struct Shared {
                snzi: Snzi,
                /// loom complains of an access that is not ordered with another.
                work: Cell<bool>,
            }
            // SAFETY: loom sees who uses the cell when.
            unsafe impl Sync for Shared {}
            let shared: &Shared =
                Box::leak(Box::new(Shared { snzi: Snzi::new(2), work: Cell::new(false) }));
            let arrival = shared.snzi.arrive_at(0);
            let other = thread::spawn(|| {
                if !shared.snzi.query() {
                    // SAFETY: loom panics if anybody else is there.
                    assert!(shared.work.with(|work| unsafe { *work }));
                }
            });
            // SAFETY: as above.
            shared.work.with(|work| unsafe { *work = true });
            drop(arrival);
            other.join().unwrap();
        });
    }
}
