//! A scalable non-zero indicator, which tells whether a count is zero, but not its value.

use alloc::boxed::Box;
use core::fmt;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};

use crate::mutant::{is_mutant, order};
use crate::padded::Padded;
use crate::primitive::AtomicU64;

/// The number of children of a node. More children shorten the path to the root, but increase the contention
/// on each node.
const FAN_OUT: usize = 8;

/// A word with a count, a flag and a version. A compare-exchange replaces all three together.
///
/// The flag means something different in each kind of word. In a node, the flag is the paper's "one half":
/// the count is zero, and the first arrival is on its way to the parent. In the root, the flag is the paper's
/// announcement: the count is above zero, but perhaps the indicator is not set yet. In the indicator, the
/// flag is the answer to a query. 32 bits of version suffice: only a thread that sleeps through exactly 2^32
/// changes could be misled.
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

    /// AcqRel everywhere: a thread arrives at the parent before it sets a node's count to one. A later thread
    /// that finds the count above zero relies on that arrival, so the later thread's exchange must acquire
    /// what the first thread's exchange released.
    fn replace(&self, old: Word, new: Word) -> bool {
        self.0
            .compare_exchange(old.pack(), new.pack(), order!(AcqRel, "snzi_replace"), Relaxed)
            .is_ok()
    }
}

/// Threads arrive at an indicator and depart from it. The indicator shows whether any thread has arrived and
/// not yet departed.
///
/// [`query`](Snzi::query) is one load of a line that is written only when the answer changes. On a leaf
/// that stays in use, an arrival and its departure together cost two atomic exchanges, and do not touch the
/// parent. With a leaf for each CPU, threads share nothing while their leaves are in use.
///
/// Use an indicator where the answer must be correct *now* and is needed often: whether a lock has readers,
/// or whether transactions are in flight. If queries may interrupt other CPUs, let each thread mark a cache
/// line of its own instead: arrivals and departures are then ten times as fast. If a late answer is good
/// enough, use [`refcache`](super::refcache), which is five times as fast.
///
/// A query returns true if it begins after an arrival has returned and ends before that arrival's departure
/// begins. A query returns false if it begins after all departures have returned and ends before another
/// arrival begins.
///
/// Each leaf and each inner node takes 128 bytes.
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
/// ```text
/// indicator   true
/// root        2              counts the nodes below that are in use
///           ┌─┴───┐
/// nodes     1  0  3          each arrives at its parent when its count rises from zero
///           │     │
/// leaves    1     1 0 2      threads arrive and depart here
/// ```
///
/// A node counts the arrivals that have not departed yet. The node arrives at its parent when its count rises
/// from zero, and departs from the parent when its count returns to zero. The first arrival cannot change the
/// node and the parent in one step. If arrivals changed the parent before the node, each of many simultaneous
/// arrivals would change the parent. If arrivals changed the node before the parent, the second arrival would
/// wrongly assume that the parent already counts the node. So the first arrival sets the node's count to *one
/// half*. Every thread that finds a count of one half also arrives at the parent, and then tries to set the
/// count to one. A thread that fails to set the count has arrived at the parent once too often, and departs
/// from the parent again.
///
/// The indicator is a separate word, so that queries do not touch the root's count. After a thread has raised
/// the root's count from zero, it sets the indicator. If other threads arrive at the root before the
/// indicator is set, they set it as well. After a thread has lowered the root's count to zero, it clears the
/// indicator, unless the root's version shows that a thread has arrived since.
///
/// Source: F. Ellen, Y. Lev, V. Luchangco and M. Moir, "SNZI: Scalable NonZero Indicators", PODC 2007,
/// with a versioned exchange of the indicator instead of load-linked and store-conditional.
#[derive(Debug)]
pub struct Snzi {
    indicator: Padded<AtomicWord>,
    root: Padded<AtomicWord>,
    /// A heap: the root has index 0, and the children of the node with index `i` have the `FAN_OUT` indices
    /// that follow `FAN_OUT * i`. The node with index `i` is `nodes[i - 1]`.
    nodes: Box<[Padded<AtomicWord>]>,
    /// The index of the first leaf; all later nodes are leaves.
    first_leaf: usize,
}

impl Snzi {
    /// An indicator with at least `leaves` leaves. Each thread should have a leaf of its own.
    pub fn new(leaves: usize) -> Snzi {
        let leaves = leaves.max(1);
        // Node `i` has children if `FAN_OUT * i + 1`, the index of its first child, is at most `nodes`. The
        // root never counts as a leaf.
        let first_leaf = |nodes: usize| nodes.div_ceil(FAN_OUT).max(1);
        let nodes = (leaves..).find(|&nodes| nodes + 1 - first_leaf(nodes) >= leaves);
        let nodes = nodes.expect("of every eight added nodes, seven add a leaf");
        Snzi {
            indicator: Padded::default(),
            root: Padded::default(),
            nodes: (0..nodes).map(|_| Padded::default()).collect(),
            first_leaf: first_leaf(nodes),
        }
    }

    /// The number of leaves.
    pub fn leaves(&self) -> usize {
        self.nodes.len() + 1 - self.first_leaf
    }

    /// Whether any thread has arrived and not yet departed. If the result is false, the caller sees what the
    /// departed threads did.
    #[inline]
    pub fn query(&self) -> bool {
        self.indicator.load().flag
    }

    /// Arrives at leaf `leaf % self.leaves()`. Dropping the returned [`Arrival`] departs. Any thread may drop
    /// the `Arrival`.
    pub fn arrive_at(&self, leaf: usize) -> Arrival<'_> {
        let place = self.first_leaf + leaf % self.leaves();
        self.arrive_at_node(place);
        Arrival { snzi: self, place }
    }

    /// Arrives at the calling thread's leaf, which few other threads use.
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
            // The count is one half. If another thread has stored this count, this thread helps to complete
            // the other thread's arrival.
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
            // Perhaps the thread that raised the count from zero has not set the indicator yet.
            loop {
                let word = self.indicator.load();
                let set = Word { flag: true, version: word.version.wrapping_add(1), ..word };
                if self.indicator.replace(word, set) {
                    break;
                }
            }
            // If the root has changed meanwhile, the thread that changed it has seen the flag. That thread
            // has set the indicator, or will set it.
            self.root.replace(new, Word { flag: false, ..new });
        }
    }

    fn depart_from_root(&self) {
        let old = loop {
            let word = self.root.load();
            debug_assert!(word.count > 0, "more departures than arrivals");
            // A departure may clear the flag, because it follows a complete arrival at the root. That arrival
            // set the indicator, unless another thread had already set it.
            if self.root.replace(word, Word { count: word.count - 1, flag: false, ..word }) {
                break word;
            }
        };
        if old.count > 1 {
            return;
        }
        loop {
            // The indicator must be loaded before the root. If another thread arrives between these two
            // loads, the second load shows the arrival. If the other thread arrives later, it sets the
            // indicator either between the first load and the exchange, which then fails, or after the
            // exchange.
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

/// An arrival at an indicator. Dropping it departs.
#[must_use = "the arrival departs when it is dropped"]
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
    fn a_tree_has_the_requested_number_of_leaves() {
        for leaves in 1..if cfg!(miri) { 20 } else { 200 } {
            let snzi = Snzi::new(leaves);
            assert_eq!(snzi.leaves(), leaves);
            // Every path from a leaf ends at the root.
            let all: Vec<_> = (0..leaves).map(|leaf| snzi.arrive_at(leaf)).collect();
            assert!(snzi.query());
            drop(all);
            assert!(!snzi.query());
            assert!(snzi.nodes.iter().all(|node| node.load().count == 0));
            assert_eq!(snzi.root.load().count, 0);
        }
    }

    #[test]
    fn a_query_is_correct_after_any_sequence_of_arrivals() {
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

    /// Random numbers for a test, from Knuth's linear congruential generator for MMIX.
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
        // Threads share one or two leaves. With nine leaves, some are below an inner node.
        for leaves in [1, 2, 9] {
            let snzi = Snzi::new(leaves);
            let all = Barrier::new(THREADS);
            // The number of arrivals that have returned minus the number of departures that have begun.
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
    use crate::primitive::Guarded;

    fn arrive_and_depart(snzi: &Snzi, leaf: usize) {
        let arrival = snzi.arrive_at(leaf);
        assert!(snzi.query(), "an arrival has not departed");
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
    fn a_query_is_correct_with_two_threads_at_one_leaf() {
        two_threads([0, 0]);
    }

    #[test]
    fn a_query_is_correct_with_two_threads_at_two_leaves() {
        two_threads([0, 1]);
    }

    #[test]
    fn a_query_is_correct_with_three_threads_at_two_leaves() {
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
                /// With [`Guarded`], loom reports unordered accesses.
                work: Guarded<bool>,
            }
            // SAFETY: loom checks every use of the cell.
            unsafe impl Sync for Shared {}
            let shared: &Shared =
                Box::leak(Box::new(Shared { snzi: Snzi::new(2), work: Guarded::new(false) }));
            let arrival = shared.snzi.arrive_at(0);
            let other = thread::spawn(|| {
                if !shared.snzi.query() {
                    // SAFETY: loom panics on a concurrent access.
                    assert!(shared.work.with(|work| unsafe { *work }));
                }
            });
            // SAFETY: loom panics on a concurrent access.
            shared.work.with(|work| unsafe { *work = true });
            drop(arrival);
            other.join().unwrap();
        });
    }
}
