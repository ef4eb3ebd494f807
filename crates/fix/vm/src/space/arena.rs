//! Per-CPU caches of free virtual address ranges.
//!
//! A space has one arena per CPU, with free lists of ranges by size. Ranges that a CPU unmaps go into the
//! CPU's own arena, and the CPU's next mappings come from this arena. So addresses are reused together with
//! their page tables, and CPUs do not contend. An arena without a large enough range takes a new *slice*. A
//! slice is the span of one branch just above the leaves, so no two arenas share a node at that level.
//!
//! The lists are hints. A listed range may be mapped, because programs may map at addresses of their choice.
//! So an operation that has taken a range may find the range occupied, and then tries another one. A free
//! range may be in no list, but a search of the whole space finds it. So a list that cannot grow may drop
//! ranges, and returning a range to an arena never fails.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::cell::RefCell;
use core::cmp::Reverse;
use core::mem;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;

use crate::cpu::Cpu;
use crate::error::OutOfMemory;
use crate::machine::Machine;
use crate::page::{BITS, ENTRIES, Page, Pages};

/// Pages per slice: the span of a branch just above the leaves, 1 GiB.
pub(crate) const SLICE: u64 = 1 << (2 * BITS);

/// The first page that may be chosen. The 64 KiB below it stay free, as with Linux's default
/// `mmap_min_addr`, so that accesses at small offsets from a null pointer fault.
const LOWEST: Page = Page(16);

/// Ranges of up to this many pages have one list per size, so that a new mapping finds a range of exactly its
/// size.
const EXACT: usize = 32;

/// Number of size classes: [`EXACT`] classes of one size each, then one class per power of two.
const CLASSES: usize = 64;

/// A search examines at most this many ranges of a class, some of which may be too small.
const LOOKS: usize = 8;

/// The maximum number of ranges in an arena; their entries occupy 96 KiB.
const MOST: usize = 4096;

/// The null index.
const NONE: u32 = u32::MAX;

const EMPTY: Pages = Pages::new(Page(0), 0);

/// The class of ranges of `count` pages.
fn class(count: u64) -> usize {
    match count {
        0..=32 => (count as usize).saturating_sub(1),
        _ => (EXACT + count.ilog2() as usize - EXACT.ilog2() as usize).min(CLASSES - 1),
    }
}

/// Chooses `count` pages in `range`, which must have room for them. Avoids crossing a leaf boundary where
/// possible: a mapping that crosses one is recorded in the branch above, so operations on it lock the branch
/// and both leaves.
pub(crate) fn place(range: Pages, count: u64) -> Pages {
    let border = Page(range.start.0.next_multiple_of(ENTRIES as u64));
    let crosses = count <= ENTRIES as u64 && border < range.start + count;
    let fits = border + count <= range.end;
    Pages::new(if crosses && fits { border } else { range.start }, count)
}

/// A range in a free list, or an empty range in the list of vacant entries.
#[derive(Debug, Clone, Copy)]
struct Entry {
    pages: Pages,
    next: u32,
}

/// A lazily unmapped range whose translations may still be in TLBs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Lingering {
    pub(super) pages: Pages,
    /// How many pages of the range were mapped.
    pub(super) mapped: u64,
    pub(super) ticket: u64,
}

/// The free ranges of one CPU. Only that CPU accesses them.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Arena {
    /// The range that the arena received last. It is in no list yet: if the next range is adjacent to it, as
    /// when an area is unmapped page by page, the two become one.
    last: Pages,
    /// Bitmap of the classes whose lists are not empty.
    used: u64,
    /// Head of each list: the range that was listed last.
    heads: [u32; CLASSES],
    /// Head of the list of vacant entries.
    vacant: u32,
    /// Number of ranges listed since adjacent ranges were last merged.
    listed: usize,
    entries: Vec<Entry>,
    /// Lazily unmapped ranges, which are free once all CPUs have ticked. Oldest first.
    pub(crate) lingering: VecDeque<Lingering>,
}

impl Arena {
    const fn new() -> Arena {
        Arena {
            last: EMPTY,
            used: 0,
            heads: [NONE; CLASSES],
            vacant: NONE,
            listed: 0,
            entries: Vec::new(),
            lingering: VecDeque::new(),
        }
    }

    /// Adds a free range.
    #[inline]
    pub(crate) fn give(&mut self, pages: Pages) {
        if pages.is_empty() {
            return;
        }
        let last = self.last;
        if last.start <= pages.end && pages.start <= last.end {
            let (start, end) = (last.start.min(pages.start), last.end.max(pages.end));
            self.last = Pages { start, end };
        } else {
            self.last = pages;
            self.list(last);
        }
    }

    /// Takes a range of at least `count` pages, which then belongs to the caller.
    #[inline]
    pub(crate) fn take(&mut self, count: u64) -> Option<Pages> {
        if self.last.count() == count {
            return Some(mem::replace(&mut self.last, EMPTY));
        }
        let class = class(count);
        if class < EXACT && self.heads[class] != NONE {
            return Some(self.remove(class, NONE));
        }
        let last = mem::replace(&mut self.last, EMPTY);
        self.list(last);
        self.find(class, count)
    }

    /// Merges adjacent ranges, then takes a range of at least `count` pages, or returns `None` if it finds
    /// none. If few ranges were listed since the last merge, another merge is not worthwhile, and the call
    /// returns `None` at once.
    pub(crate) fn take_joined(&mut self, count: u64) -> Option<Pages> {
        if self.listed == 0 || self.listed < self.entries.len() {
            return None;
        }
        self.join(MOST);
        self.find(class(count), count)
    }

    fn find(&mut self, class: usize, count: u64) -> Option<Pages> {
        let (mut previous, mut at) = (NONE, self.heads[class]);
        for _ in 0..LOOKS {
            let Some(entry) = self.entries.get(at as usize) else { break };
            if entry.pages.count() >= count {
                return Some(self.remove(class, previous));
            }
            (previous, at) = (at, entry.next);
        }
        // Every range of a larger class is large enough: use the smallest such class.
        let larger = self.used & (u64::MAX << class) & !(1 << class);
        (larger != 0).then(|| self.remove(larger.trailing_zeros() as usize, NONE))
    }

    /// Removes the range after `previous` from its list, or the head if `previous` is `NONE`.
    #[inline]
    fn remove(&mut self, class: usize, previous: u32) -> Pages {
        let at = match previous {
            NONE => self.heads[class],
            _ => self.entries[previous as usize].next,
        };
        let Entry { pages, next } = self.entries[at as usize];
        match previous {
            NONE => self.heads[class] = next,
            _ => self.entries[previous as usize].next = next,
        }
        if self.heads[class] == NONE {
            self.used &= !(1 << class);
        }
        self.entries[at as usize] = Entry { pages: EMPTY, next: self.vacant };
        self.vacant = at;
        pages
    }

    /// Puts a range into its list, or drops it if there is no memory for an entry.
    #[inline]
    fn list(&mut self, pages: Pages) {
        if pages.is_empty() {
            return;
        }
        if self.vacant == NONE && !self.grow() {
            return;
        }
        let at = self.vacant;
        self.vacant = self.entries[at as usize].next;
        self.entries[at as usize].pages = pages;
        self.link(at);
        self.listed += 1;
    }

    #[inline]
    fn link(&mut self, at: u32) {
        let entry = &mut self.entries[at as usize];
        let class = class(entry.pages.count());
        entry.next = mem::replace(&mut self.heads[class], at);
        self.used |= 1 << class;
    }

    /// Adds a vacant entry. Returns false if there is no memory.
    #[cold]
    fn grow(&mut self) -> bool {
        if self.entries.len() == MOST {
            // Merge the ranges and keep at most `MOST / 2`, so that many ranges can be listed before the next
            // merge.
            self.join(MOST / 2);
        }
        if self.entries.try_reserve(1).is_err() {
            return false;
        }
        self.vacant = self.entries.len() as u32;
        self.entries.push(Entry { pages: EMPTY, next: NONE });
        true
    }

    /// Merges ranges that are adjacent or overlap. Ranges are only hints, so they may overlap. Keeps only the
    /// `most` largest ranges.
    #[cold]
    fn join(&mut self, most: usize) {
        self.entries.retain(|entry| !entry.pages.is_empty());
        self.entries.sort_unstable_by_key(|entry| entry.pages.start);
        self.entries.dedup_by(|next, kept| {
            let joins = next.pages.start <= kept.pages.end;
            if joins {
                kept.pages.end = kept.pages.end.max(next.pages.end);
            }
            joins
        });
        if self.entries.len() > most {
            self.entries.sort_unstable_by_key(|entry| Reverse(entry.pages.count()));
            self.entries.truncate(most);
        }
        (self.vacant, self.used, self.heads, self.listed) = (NONE, 0, [NONE; CLASSES], 0);
        (0..self.entries.len() as u32).rev().for_each(|at| self.link(at));
    }
}

/// The arenas of a space.
pub(crate) struct Arenas {
    window: Pages,
    /// The first page of the slices taken so far: a multiple of [`SLICE`], or the end of `window` before any
    /// slice is taken. Slices are taken from the top down, away from the addresses that programs choose at
    /// the bottom.
    taken: AtomicU64,
    arenas: Box<[RefCell<Arena>]>,
}

// SAFETY: `with` lets a CPU access only its own arena. The creator of a `Cpu` guarantees that no other
// `Cpu` has the same number at the same time. A `Cpu` is not `Sync`, so one thread uses an arena at a
// time.
unsafe impl Sync for Arenas {}

impl Arenas {
    /// Arenas for `cpus` CPUs, in a space that consists of `pages`.
    pub(crate) fn new(cpus: usize, pages: Pages) -> Result<Arenas, OutOfMemory> {
        let mut arenas = Vec::new();
        arenas.try_reserve_exact(cpus)?;
        arenas.resize_with(cpus, || RefCell::new(Arena::new()));
        let window = Pages { start: LOWEST, ..pages };
        let (taken, arenas) = (AtomicU64::new(window.end.0), arenas.into_boxed_slice());
        Ok(Arenas { window, taken, arenas })
    }

    /// The pages from which the space may choose.
    pub(crate) fn window(&self) -> Pages {
        self.window
    }

    /// Passes the arena of this CPU to `with`.
    ///
    /// # Safety
    /// The CPU must belong to the space's machine.
    #[inline]
    pub(crate) unsafe fn with<M: Machine, R>(
        &self,
        cpu: &Cpu<'_, M>,
        with: impl FnOnce(&mut Arena) -> R,
    ) -> R {
        with(&mut self.arenas[cpu.number()].borrow_mut())
    }

    /// The part of `pages` that lies in slices taken so far. Other addresses must not be listed: otherwise
    /// two arenas could list the same addresses, and programs that choose their own addresses would pay for
    /// the lists.
    #[inline]
    pub(crate) fn sliced(&self, pages: Pages) -> Pages {
        pages.and(Pages { start: Page(self.taken.load(Relaxed)), end: self.window.end })
    }

    /// Takes adjacent unused slices with room for `count` pages. Returns `None` if too few are left.
    #[cold]
    pub(crate) fn slices(&self, count: u64) -> Option<Pages> {
        let pages = count.div_ceil(SLICE) * SLICE;
        let lower = |taken: u64| taken.checked_sub(pages).filter(|&first| first >= SLICE);
        // Relaxed: the update itself grants the slices, and publishes nothing else.
        let taken = self.taken.fetch_update(Relaxed, Relaxed, lower).ok()?;
        Some(Pages::new(Page(taken - pages), pages))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    use std::collections::BTreeSet;

    use proptest::prelude::*;

    fn all(arena: &Arena) -> Vec<Pages> {
        let ranges = arena.entries.iter().map(|entry| entry.pages).chain([arena.last]);
        ranges.filter(|pages| !pages.is_empty()).collect()
    }

    /// Asserts that every range is in the list of its class, and every entry in exactly one list.
    fn check(arena: &Arena) {
        let mut seen = BTreeSet::new();
        for (class, &head) in arena.heads.iter().enumerate() {
            assert_eq!(arena.used & 1 << class != 0, head != NONE);
            let mut at = head;
            while at != NONE {
                let entry = arena.entries[at as usize];
                assert_eq!(super::class(entry.pages.count()), class);
                assert!(seen.insert(at));
                at = entry.next;
            }
        }
        let mut at = arena.vacant;
        while at != NONE {
            assert!(seen.insert(at) && arena.entries[at as usize].pages.is_empty());
            at = arena.entries[at as usize].next;
        }
        assert_eq!(seen.len(), arena.entries.len());
    }

    #[derive(Debug, Clone)]
    enum Operation {
        Take(u64),
        Give(usize, u64, u64),
        Join,
    }

    fn operation() -> impl Strategy<Value = Operation> {
        prop_oneof![
            8 => prop_oneof![1_u64..12, 25_u64..300].prop_map(Operation::Take),
            8 => (any::<usize>(), 0_u64..300, 1_u64..300)
                .prop_map(|(which, from, count)| Operation::Give(which, from, count)),
            1 => Just(Operation::Join),
        ]
    }

    proptest! {
        #[test]
        fn an_arena_hands_out_each_page_once(
            operations in prop::collection::vec(operation(), 1..if cfg!(miri) { 50 } else { 200 })
        ) {
            const PAGES: u64 = 20_000;
            let mut arena = Arena::new();
            arena.give(Pages::new(Page(1000), PAGES));
            let mut taken: Vec<Pages> = Vec::new();
            for operation in operations {
                match operation {
                    Operation::Take(count) => if let Some(range) = arena.take(count) {
                        prop_assert!(range.count() >= count);
                        let pages = place(range, count);
                        prop_assert!(range.covers(pages) && pages.count() == count);
                        arena.give(Pages { start: range.start, end: pages.start });
                        arena.give(Pages { start: pages.end, end: range.end });
                        taken.push(pages);
                    },
                    // Gives back a part of a taken range.
                    Operation::Give(which, from, count) => if !taken.is_empty() {
                        let whole = taken.swap_remove(which % taken.len());
                        let part = Pages::new(whole.start + from % whole.count(), count).and(whole);
                        arena.give(part);
                        taken.push(Pages { start: whole.start, end: part.start });
                        taken.push(Pages { start: part.end, end: whole.end });
                        taken.retain(|pages| !pages.is_empty());
                    },
                    Operation::Join => {
                        arena.take_joined(u64::MAX);
                    }
                }
                check(&arena);
                let mut ranges: Vec<Pages> = all(&arena).into_iter().chain(taken.clone()).collect();
                ranges.sort_by_key(|pages| pages.start);
                prop_assert!(ranges.windows(2).all(|pair| pair[0].end == pair[1].start));
                let count: u64 = ranges.iter().map(|pages| pages.count()).sum();
                prop_assert_eq!(count, PAGES, "no range is lost");
            }
            // After everything is given back and merged, one range is left.
            taken.drain(..).for_each(|pages| arena.give(pages));
            let last = mem::replace(&mut arena.last, EMPTY);
            arena.list(last);
            arena.join(MOST);
            check(&arena);
            prop_assert_eq!(all(&arena), vec![Pages::new(Page(1000), PAGES)]);
        }
    }

    #[test]
    fn ranges_of_one_size_are_reused_in_lifo_order() {
        let mut arena = Arena::new();
        for page in [10, 30, 20] {
            arena.give(Pages::new(Page(page), 3));
        }
        arena.give(Pages::new(Page(40), 4));
        for page in [20, 30, 10] {
            assert_eq!(arena.take(3), Some(Pages::new(Page(page), 3)));
        }
        assert_eq!(arena.take(3), Some(Pages::new(Page(40), 4)), "the larger range is last");
        assert_eq!(arena.take(1), None);
    }

    #[test]
    fn a_full_arena_drops_its_smallest_ranges() {
        let mut arena = Arena::new();
        let large = Pages::new(Page(1 << 20), 1000);
        arena.give(large);
        let times = if cfg!(miri) { 2 } else { 5 };
        for page in 0..times * MOST as u64 {
            arena.give(Pages::new(Page(2 * page), 1));
            assert!(arena.entries.len() <= MOST);
        }
        check(&arena);
        assert_eq!(arena.take(900), Some(large));
        assert_eq!(arena.take(900), None);
    }

    #[test]
    fn adjacent_ranges_are_merged_before_a_slice_is_taken() {
        let mut arena = Arena::new();
        for page in [2, 0, 6, 4, 3, 7, 1, 5] {
            arena.give(Pages::new(Page(page), 1));
        }
        assert_eq!(arena.take(8), None);
        assert_eq!(arena.take_joined(8), Some(Pages::new(Page(0), 8)));
        assert_eq!(arena.take_joined(1), None, "nothing to merge");
    }

    #[test]
    fn small_ranges_cross_no_leaf_boundary_if_there_is_room() {
        let range = Pages { start: Page(510), end: Page(3 * ENTRIES as u64) };
        assert_eq!(place(range, 2), Pages::new(Page(510), 2));
        assert_eq!(place(range, 3), Pages::new(Page(512), 3));
        assert_eq!(place(range, 512), Pages::new(Page(512), 512));
        assert_eq!(place(range, 513), Pages::new(Page(510), 513));
        assert_eq!(place(Pages::new(Page(510), 4), 3), Pages::new(Page(510), 3));
    }

    #[test]
    fn slices_are_disjoint_and_run_out() {
        let arenas = Arenas::new(1, Pages::new(Page(0), 8 * SLICE)).unwrap();
        assert_eq!(arenas.slices(1), Some(Pages::new(Page(7 * SLICE), SLICE)));
        assert_eq!(arenas.slices(SLICE + 1), Some(Pages::new(Page(5 * SLICE), 2 * SLICE)));
        assert_eq!(arenas.slices(5 * SLICE), None, "the lowest slice is never taken");
        assert_eq!(arenas.slices(4 * SLICE), Some(Pages::new(Page(SLICE), 4 * SLICE)));
        assert_eq!(arenas.slices(1), None);
        assert_eq!(arenas.sliced(Pages::new(Page(0), 2 * SLICE)), Pages::new(Page(SLICE), SLICE));
    }
}
