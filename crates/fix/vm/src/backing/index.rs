//! The frames of an object, by page index.

use alloc::boxed::Box;
use core::mem::{MaybeUninit, align_of, size_of};
use core::ops::Range;
use core::ptr::{self, NonNull};
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicPtr, AtomicU64};

use knee_sync::shim::order;

use crate::allocate::try_box;
use crate::error::OutOfMemory;
use crate::needed::Needed;
use crate::page::{BITS, ENTRIES, Frame};

/// A radix tree that allocates tables on demand and never shrinks. Lookups write nothing, and insertions
/// into different tables share no cache line.
#[derive(Debug)]
pub(crate) struct Index {
    /// Number of table levels above the slots.
    height: u32,
    root: NonNull<Block>,
}

// SAFETY: the tables consist of atomics, and the index owns them.
unsafe impl Send for Index {}
// SAFETY: the tables consist of atomics.
unsafe impl Sync for Index {}

/// Zeroed memory for a table.
pub(crate) type Block = MaybeUninit<[u64; ENTRIES]>;

/// Memory for a table, allocated before an operation takes locks.
#[derive(Debug, Default)]
pub(crate) struct BlockPool {
    block: Option<Box<Block>>,
}

impl BlockPool {
    /// Takes a zeroed block.
    pub(crate) fn block(&mut self) -> Result<Box<Block>, Needed> {
        self.block.take().ok_or(Needed::Block)
    }

    /// Puts back an unused block.
    pub(crate) fn keep_block(&mut self, block: Box<Block>) {
        self.block = Some(block);
    }

    /// Allocates a block if the pool is empty.
    pub(crate) fn refill(&mut self) -> Result<(), OutOfMemory> {
        if self.block.is_none() {
            self.block = Some(try_box(Block::zeroed())?);
        }
        Ok(())
    }
}

type Tables = [AtomicPtr<Block>; ENTRIES];
type Slots = [Slot; ENTRIES];

const _: () = {
    assert!(
        size_of::<Tables>() == size_of::<Block>() && align_of::<Tables>() == align_of::<Block>()
    );
    assert!(size_of::<Slots>() == size_of::<Block>() && align_of::<Slots>() == align_of::<Block>());
};

/// An entry of the index: the [state](State) of a page.
#[derive(Debug)]
#[repr(transparent)]
pub(crate) struct Slot(AtomicU64);

/// The state of a page of the object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// The page has no frame.
    Absent,
    /// The page is being brought in.
    Coming,
    /// The page is being evicted or written to the pager. Accesses must wait.
    Leaving(Frame),
    /// The page is resident.
    Present(Frame),
}

impl State {
    fn word(self) -> u64 {
        match self {
            State::Absent => 0,
            State::Coming => 1,
            State::Leaving(frame) => frame.0 << 2 | 2,
            State::Present(frame) => frame.0 << 2 | 3,
        }
    }
}

impl Slot {
    /// Returns the state. Acquire: pairs with the Release in `set`, so that the frame's initialization is
    /// visible.
    #[inline]
    pub(crate) fn get(&self) -> State {
        let word = self.0.load(order!(Acquire, "slot_get"));
        match word % 4 {
            0 => State::Absent,
            1 => State::Coming,
            2 => State::Leaving(Frame(word >> 2)),
            _ => State::Present(Frame(word >> 2)),
        }
    }

    /// Changes the state from `old` to `new`. Returns false if the state is not `old`.
    pub(crate) fn replace(&self, old: State, new: State) -> bool {
        self.0
            .compare_exchange(old.word(), new.word(), order!(AcqRel, "slot_replace"), Relaxed)
            .is_ok()
    }

    /// Sets the state. Only the CPU that set the state to [`Coming`](State::Coming) or
    /// [`Leaving`](State::Leaving) may call this.
    pub(crate) fn set(&self, state: State) {
        self.0.store(state.word(), order!(Release, "slot_set"));
    }
}

/// The position of a page's entry in a table of level `level`.
#[inline]
fn entry(index: u64, level: u32) -> usize {
    (index >> (BITS * level)) as usize % ENTRIES
}

impl Index {
    /// An empty index for `pages` pages.
    pub(crate) fn new(pages: u64) -> Result<Index, OutOfMemory> {
        let mut height = 0;
        while pages.checked_shr(BITS * (height + 1)).is_some_and(|rest| rest > 0)
            && pages > 1 << (BITS * (height + 1))
        {
            height += 1;
        }
        let root = try_box(Block::zeroed())?;
        Ok(Index { height, root: NonNull::from(Box::leak(root)) })
    }

    /// Number of pages that the index has room for.
    pub(crate) fn capacity(&self) -> u64 {
        1_u64.checked_shl(BITS * (self.height + 1)).unwrap_or(u64::MAX)
    }

    /// The slot of a page, or `None` if its table does not exist yet. `index` must be below the capacity.
    #[inline]
    pub(crate) fn find(&self, index: u64) -> Option<&Slot> {
        let mut block = self.root;
        for level in (1..=self.height).rev() {
            // SAFETY: blocks above level 0 are tables, which live as long as the index.
            let tables = unsafe { block.cast::<Tables>().as_ref() };
            // Acquire: pairs with the publication in `make`, so that this CPU sees a zeroed block.
            block = NonNull::new(tables[entry(index, level)].load(order!(Acquire, "index_find")))?;
        }
        // SAFETY: blocks of level 0 are slots, which live as long as the index.
        Some(unsafe { &block.cast::<Slots>().as_ref()[entry(index, 0)] })
    }

    /// The slot of a page. Adds missing tables, with memory from `pool`. `index` must be below the
    /// capacity.
    pub(crate) fn make(&self, index: u64, pool: &mut BlockPool) -> Result<&Slot, Needed> {
        let mut block = self.root;
        for level in (1..=self.height).rev() {
            // SAFETY: as in `find`.
            let tables = unsafe { block.cast::<Tables>().as_ref() };
            let table = &tables[entry(index, level)];
            block = match NonNull::new(table.load(order!(Acquire, "index_make"))) {
                Some(below) => below,
                None => {
                    let new = Box::into_raw(pool.block()?);
                    // Release publishes the zeroed block. No mutant weakens the Acquire on failure, because
                    // Miri's schedules seldom take that path.
                    match table.compare_exchange(
                        ptr::null_mut(),
                        new,
                        order!(AcqRel, "index_add"),
                        Acquire,
                    ) {
                        Ok(_) => NonNull::new(new),
                        Err(other) => {
                            // SAFETY: `new` came from a box above and was not published.
                            pool.keep_block(unsafe { Box::from_raw(new) });
                            NonNull::new(other)
                        }
                    }
                    .expect("both the new and the winning block are non-null")
                }
            };
        }
        // SAFETY: as in `find`.
        Ok(unsafe { &block.cast::<Slots>().as_ref()[entry(index, 0)] })
    }

    /// Passes to `with` the index and slot of each page in `pages` whose table exists. The time is linear in
    /// the number of tables, not in the number of pages.
    pub(crate) fn for_each(&self, pages: Range<u64>, mut with: impl FnMut(u64, &Slot)) {
        // SAFETY: `height` is the height of the root, which starts at page 0, and tables live as long as
        // the index.
        unsafe { for_each_below(self.root, self.height, 0, &pages, &mut with) };
    }
}

/// # Safety
/// `block` must have height `height` and begin with page `first`, and must stay valid during the call.
unsafe fn for_each_below(
    block: NonNull<Block>,
    height: u32,
    first: u64,
    pages: &Range<u64>,
    with: &mut dyn FnMut(u64, &Slot),
) {
    let reach = 1_u64 << (BITS * height);
    for entry in 0..ENTRIES {
        // In the largest index, entries of pages beyond `u64::MAX` are unused.
        let Some(start) = (entry as u64).checked_mul(reach).and_then(|at| first.checked_add(at))
        else {
            return;
        };
        if start.saturating_add(reach) <= pages.start || start >= pages.end {
            continue;
        }
        // SAFETY: the caller guarantees the height and lifetime of the block, which imply those of the
        // blocks below it.
        unsafe {
            if height == 0 {
                with(start, &block.cast::<Slots>().as_ref()[entry]);
            } else if let Some(below) = NonNull::new(
                block.cast::<Tables>().as_ref()[entry].load(order!(Acquire, "index_walk")),
            ) {
                for_each_below(below, height - 1, start, pages, with);
            }
        }
    }
}

impl Drop for Index {
    fn drop(&mut self) {
        /// # Safety
        /// `block` must have height `height`, and must no longer be in use.
        unsafe fn free(block: NonNull<Block>, height: u32) {
            if height > 0 {
                // SAFETY: the caller guarantees the height, and a block whose height is above 0 contains
                // pointers to tables.
                for below in unsafe { block.cast::<Tables>().as_ref() } {
                    if let Some(below) = NonNull::new(below.load(Relaxed)) {
                        // SAFETY: the height of the block below is one less, and nobody uses that block.
                        unsafe { free(below, height - 1) };
                    }
                }
            }
            // SAFETY: the block came from a box of this type.
            drop(unsafe { Box::from_raw(block.as_ptr()) });
        }
        // SAFETY: `drop` has exclusive access to the index.
        unsafe { free(self.root, self.height) };
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    use std::cell::UnsafeCell;
    use std::sync::atomic::AtomicBool;
    use std::thread;

    /// An index and the content of a frame.
    struct Shared {
        index: Index,
        content: UnsafeCell<u32>,
    }

    // SAFETY: slot states serialize accesses to the content; Miri checks that.
    unsafe impl Sync for Shared {}

    impl Shared {
        fn new() -> Shared {
            Shared { index: Index::new(513).unwrap(), content: UnsafeCell::new(0) }
        }

        fn slot(&self) -> &Slot {
            let mut pool = BlockPool::default();
            pool.refill().unwrap();
            self.index.make(PAGE, &mut pool).expect("the pool has a block")
        }

        fn use_content(&self) {
            // SAFETY: the caller has set the state of the page to `Coming`, or found that it is `Present`.
            unsafe { *self.content.get() += 1 };
        }
    }

    /// A page of the second table.
    const PAGE: u64 = 600;

    fn wait_for<T>(mut found: impl FnMut() -> Option<T>) -> T {
        loop {
            if let Some(found) = found() {
                return found;
            }
            thread::yield_now();
        }
    }

    #[test]
    fn a_cpu_that_finds_a_frame_sees_its_content() {
        let shared = Shared::new();
        thread::scope(|scope| {
            scope.spawn(|| {
                let slot = shared.slot();
                assert!(slot.replace(State::Absent, State::Coming));
                shared.use_content();
                slot.set(State::Present(Frame(7)));
            });
            let slot = wait_for(|| shared.index.find(PAGE));
            wait_for(|| (slot.get() == State::Present(Frame(7))).then_some(()));
            shared.use_content();
        });
    }

    #[test]
    fn a_page_is_brought_in_again_only_after_the_last_use_of_its_frame() {
        let shared = Shared::new();
        let bring = || {
            let slot = shared.slot();
            wait_for(|| slot.replace(State::Absent, State::Coming).then_some(()));
            shared.use_content();
            slot.set(State::Absent);
        };
        thread::scope(|scope| {
            scope.spawn(bring);
            bring();
        });
    }

    #[test]
    fn a_walk_sees_new_tables_zeroed() {
        let (shared, is_over) = (Shared::new(), AtomicBool::new(false));
        thread::scope(|scope| {
            scope.spawn(|| {
                shared.slot();
                is_over.store(true, Relaxed);
            });
            wait_for(|| {
                shared.index.for_each(512..1024, |_, slot| assert_eq!(slot.get(), State::Absent));
                is_over.load(Relaxed).then_some(())
            });
            // The Relaxed load of `is_over` does not make the new table visible: the walk may or may not
            // find it.
            shared.index.for_each(512..1024, |_, slot| assert_eq!(slot.get(), State::Absent));
        });
    }

    #[test]
    fn the_capacity_covers_the_requested_pages() {
        let mut pool = BlockPool::default();
        for (pages, capacity) in [
            (0, 512),
            (1, 512),
            (512, 512),
            (513, 1 << 18),
            (1 << 18, 1 << 18),
            (u64::MAX, u64::MAX),
        ] {
            let index = Index::new(pages).unwrap();
            assert_eq!(index.capacity(), capacity, "{pages}");
            let last = capacity - 1;
            let slot = loop {
                match index.make(last, &mut pool) {
                    Ok(slot) => break std::ptr::from_ref(slot),
                    Err(_) => pool.refill().unwrap(),
                }
            };
            assert_eq!(index.find(last).map(|slot| slot as *const Slot), Some(slot));
            assert!(index.find(last).unwrap().replace(State::Absent, State::Present(Frame(7))));
            let mut seen = Vec::new();
            index.for_each(last - 511..last + 1, |index, slot| {
                if slot.get() != State::Absent {
                    seen.push((index, slot.get()));
                }
            });
            assert_eq!(seen, [(last, State::Present(Frame(7)))]);
        }
    }

    #[test]
    fn a_word_encodes_every_state() {
        let slot = Slot(AtomicU64::new(0));
        assert_eq!(slot.get(), State::Absent);
        for state in [
            State::Coming,
            State::Leaving(Frame(0)),
            State::Present(Frame(0)),
            State::Present(Frame(1 << 40)),
        ] {
            slot.set(state);
            assert_eq!(slot.get(), state);
            assert!(!slot.replace(State::Absent, State::Coming));
        }
    }
}
