//! The frames of an object, by the number of their page.

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

/// A radix tree that grows with what is in it and never shrinks: who looks for a page writes nothing, and
/// two that add pages of different tables share nothing.
#[derive(Debug)]
pub(crate) struct Index {
    /// Levels of tables above those of slots.
    height: u32,
    root: NonNull<Block>,
}

// SAFETY: it is made of atomics.
unsafe impl Send for Index {}
// SAFETY: as above.
unsafe impl Sync for Index {}

/// Memory of a table, zero at first.
pub(crate) type Block = MaybeUninit<[u64; ENTRIES]>;

/// Memory for a table, allocated before an operation takes locks.
#[derive(Debug, Default)]
pub(crate) struct BlockPool {
    block: Option<Box<Block>>,
}

impl BlockPool {
    /// Memory of zeros.
    pub(crate) fn block(&mut self) -> Result<Box<Block>, Needed> {
        self.block.take().ok_or(Needed::Block)
    }

    /// Takes back what was not needed.
    pub(crate) fn keep_block(&mut self, block: Box<Block>) {
        self.block = Some(block);
    }

    /// Allocates memory if there is none.
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

/// Where it is said which frame a page has.
#[derive(Debug)]
#[repr(transparent)]
pub(crate) struct Slot(AtomicU64);

/// What is said of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// It has no frame.
    Absent,
    /// Its frame is on its way in.
    Coming,
    /// Its frame is on its way out, or to the pager: who wants it has to wait.
    Leaving(Frame),
    /// It is there.
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
    /// Acquire: what was done to the frame before it was said to be there.
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

    /// Whether it was `old` and is `new` now.
    pub(crate) fn replace(&self, old: State, new: State) -> bool {
        self.0
            .compare_exchange(old.word(), new.word(), order!(AcqRel, "slot_replace"), Relaxed)
            .is_ok()
    }

    /// By whoever has made it [coming](State::Coming) or [leaving](State::Leaving).
    pub(crate) fn set(&self, state: State) {
        self.0.store(state.word(), order!(Release, "slot_set"));
    }
}

/// The entry that stands for a page in a table of this level.
#[inline]
fn entry(index: u64, level: u32) -> usize {
    (index >> (BITS * level)) as usize % ENTRIES
}

impl Index {
    /// One for so many pages, none of which has a frame.
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

    /// How many pages it has slots for.
    pub(crate) fn capacity(&self) -> u64 {
        1_u64.checked_shl(BITS * (self.height + 1)).unwrap_or(u64::MAX)
    }

    /// The slot of a page below the capacity; none if there is no table for it yet.
    #[inline]
    pub(crate) fn find(&self, index: u64) -> Option<&Slot> {
        let mut block = self.root;
        for level in (1..=self.height).rev() {
            // SAFETY: what is above slots are tables, which stay as long as the index.
            let tables = unsafe { block.cast::<Tables>().as_ref() };
            // Acquire: it was zero before it was there.
            block = NonNull::new(tables[entry(index, level)].load(order!(Acquire, "index_find")))?;
        }
        // SAFETY: these are slots, which stay as long as the index.
        Some(unsafe { &block.cast::<Slots>().as_ref()[entry(index, 0)] })
    }

    /// The slot of a page below the capacity, with tables from `pool`.
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
                    // Release: it is zero before it is there. The other's Acquire has no mutant: Miri's
                    // schedules seldom come there.
                    match table.compare_exchange(
                        ptr::null_mut(),
                        new,
                        order!(AcqRel, "index_add"),
                        Acquire,
                    ) {
                        Ok(_) => NonNull::new(new),
                        Err(other) => {
                            // SAFETY: we have just made it a pointer, which nobody else has.
                            pool.keep_block(unsafe { Box::from_raw(new) });
                            NonNull::new(other)
                        }
                    }
                    .expect("it is not null")
                }
            };
        }
        // SAFETY: as in `find`.
        Ok(unsafe { &block.cast::<Slots>().as_ref()[entry(index, 0)] })
    }

    /// Calls `with` with the slots of these pages that there are: in time for what there is, not for the pages.
    pub(crate) fn for_each(&self, pages: Range<u64>, mut with: impl FnMut(u64, &Slot)) {
        // SAFETY: the root is of this height.
        unsafe { for_each_below(self.root, self.height, 0, &pages, &mut with) };
    }
}

/// # Safety
/// The block is of this height, its first page is `first`, and it stays meanwhile.
unsafe fn for_each_below(
    block: NonNull<Block>,
    height: u32,
    first: u64,
    pages: &Range<u64>,
    with: &mut dyn FnMut(u64, &Slot),
) {
    let reach = 1_u64 << (BITS * height);
    for entry in 0..ENTRIES {
        // Above the capacity of the largest there is nothing.
        let Some(start) = (entry as u64).checked_mul(reach).and_then(|at| first.checked_add(at))
        else {
            return;
        };
        if start.saturating_add(reach) <= pages.start || start >= pages.end {
            continue;
        }
        // SAFETY: said by the caller; what is below stays as well.
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
        /// The block has tables of this height below, and nobody uses it any more.
        unsafe fn free(block: NonNull<Block>, height: u32) {
            if height > 0 {
                // SAFETY: said by the caller.
                for below in unsafe { block.cast::<Tables>().as_ref() } {
                    if let Some(below) = NonNull::new(below.load(Relaxed)) {
                        // SAFETY: as above.
                        unsafe { free(below, height - 1) };
                    }
                }
            }
            // SAFETY: it was leaked by a box of this type.
            drop(unsafe { Box::from_raw(block.as_ptr()) });
        }
        // SAFETY: nobody uses the index any more.
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

    // SAFETY: Miri sees who uses the content when.
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
            // SAFETY: said by who calls: it has made the page coming, or found it present.
            unsafe { *self.content.get() += 1 };
        }
    }

    /// Of the second table.
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
    fn a_frame_is_found_with_its_content() {
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
    fn a_page_comes_again_when_all_is_done_with_its_frame() {
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
    fn a_walk_finds_tables_zeroed() {
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
            // Relaxed says nothing about the table, and it is found now or not.
            shared.index.for_each(512..1024, |_, slot| assert_eq!(slot.get(), State::Absent));
        });
    }

    #[test]
    fn it_has_room_for_as_many_as_it_was_made_for() {
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
    fn words_say_what_was_said() {
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
