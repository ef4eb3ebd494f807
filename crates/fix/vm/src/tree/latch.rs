//! A branch's extents, published to lock-free readers.
//!
//! A latch is a seqlock over two copies, like Linux's `raw_write_seqcount_latch` (`include/linux/seqlock.h`).
//! A writer locks the branch, fills the copy that is not current, and makes this copy current. A reader
//! uses the current copy, and retries if the version has changed in the meantime. Readers therefore never
//! wait for a writer, and a write needs no allocation and no grace period, unless the extents outgrow the
//! latch.

use alloc::boxed::Box;
use alloc::collections::TryReserveError;
use alloc::vec::Vec;
use core::cell::UnsafeCell;
use core::ptr::{self, NonNull};
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use knee_sync::epoch::Entry;
use knee_sync::shim::{AtomicPtr, AtomicU64, PublishCheck, fence, is_mutant, order};

use crate::page::{Page, Pages, Protection};
use crate::tree::attributes::{Attributes, BackingId};
use crate::tree::extents::Extent;

/// Extents per block of 128 bytes.
pub(crate) const BLOCK: usize = 4;

/// An extent that readers may load while a writer changes it.
#[derive(Debug, Default)]
struct AtomicExtent {
    start: AtomicU64,
    end: AtomicU64,
    protection: AtomicU64,
    backing: AtomicPtr<()>,
}

impl AtomicExtent {
    /// The pages of the extent. During a concurrent write, the result may combine the start of one extent
    /// with the end of another.
    #[inline]
    fn pages(&self) -> Pages {
        Pages { start: Page(self.start.load(Relaxed)), end: Page(self.end.load(Relaxed)) }
    }

    #[inline]
    fn get(&self) -> Extent {
        let protection = Protection::from_bits_retain(self.protection.load(Relaxed) as u8);
        let backing = NonNull::new(self.backing.load(Relaxed)).map(BackingId::new);
        Extent { pages: self.pages(), attributes: Attributes { protection, backing } }
    }

    #[inline]
    fn set(&self, extent: Extent) {
        let Extent { pages, attributes: Attributes { protection, backing } } = extent;
        self.start.store(pages.start.0, Relaxed);
        self.end.store(pages.end.0, Relaxed);
        self.protection.store(protection.bits().into(), Relaxed);
        let backing = backing.map_or(ptr::null_mut(), |id| id.pointer().as_ptr());
        self.backing.store(backing, Relaxed);
    }
}

#[derive(Debug, Default)]
#[repr(align(128))]
struct Block([AtomicExtent; BLOCK]);

/// Two copies of a branch's extents.
#[derive(Debug)]
#[repr(C, align(128))]
pub(crate) struct ExtentLatch {
    /// The first field, so that its address is the latch's address. A cell, because retiring the latch writes
    /// to this field while readers may still use the latch.
    retired: UnsafeCell<Entry>,
    made: PublishCheck,
    /// The lowest bit selects the current copy.
    version: AtomicU64,
    copies: [LatchCopy; 2],
}

/// One copy: the first `len` extents of `blocks`.
#[derive(Debug)]
struct LatchCopy {
    len: AtomicU64,
    blocks: Box<[Block]>,
}

impl LatchCopy {
    fn with_room(room: usize) -> Result<LatchCopy, TryReserveError> {
        let count = room.div_ceil(BLOCK);
        let mut blocks = Vec::new();
        blocks.try_reserve_exact(count)?;
        blocks.resize_with(count, Block::default);
        Ok(LatchCopy { len: AtomicU64::new(0), blocks: blocks.into_boxed_slice() })
    }
}

impl ExtentLatch {
    /// An empty latch with capacity for at least `room` extents.
    pub(crate) fn with_room(room: usize) -> Result<ExtentLatch, TryReserveError> {
        Ok(ExtentLatch {
            retired: UnsafeCell::new(Entry::new()),
            made: PublishCheck::new(),
            version: AtomicU64::new(0),
            copies: [LatchCopy::with_room(room)?, LatchCopy::with_room(room)?],
        })
    }

    /// The latch's own epoch entry, so that retiring the latch needs no allocation.
    pub(crate) fn entry(latch: NonNull<ExtentLatch>) -> NonNull<Entry> {
        latch.cast()
    }

    /// Frees a latch after its grace period.
    ///
    /// # Safety
    /// `entry` must be the [`entry`](ExtentLatch::entry) of a latch that came from a box. No reader may be
    /// able to find the latch, and the latch's grace period must have passed.
    pub(crate) unsafe fn free(entry: NonNull<Entry>) {
        // SAFETY: the entry is the first field, and the latch came from a box, as the caller guarantees.
        drop(unsafe { Box::from_raw(entry.cast::<ExtentLatch>().as_ptr()) });
    }

    /// The capacity.
    pub(crate) fn room(&self) -> usize {
        self.copies[0].blocks.len() * BLOCK
    }

    /// The copy that is current at version `version`.
    #[inline]
    fn copy(&self, version: u64) -> View<'_> {
        self.made.found();
        let LatchCopy { len, blocks } = &self.copies[version as usize % 2];
        View { blocks, first: 0, len: len.load(Relaxed) as usize }
    }

    /// See [`LatchedExtents::read`].
    #[inline]
    fn read<R>(&self, with: impl Fn(View<'_>) -> R) -> R {
        loop {
            let version = self.version.load(order!(Acquire, "extents_version"));
            let result = with(self.copy(version));
            if !is_mutant!("extents_no_acquire") {
                fence(Acquire);
            }
            if self.version.load(Relaxed) == version || is_mutant!("extents_read_once") {
                return result;
            }
        }
    }

    /// Publishes `extents` as the current copy.
    ///
    /// # Safety
    /// Writes must be serialized: each write must happen before the next. `extents` must fit in the capacity.
    #[inline]
    pub(crate) unsafe fn write(&self, extents: impl ExactSizeIterator<Item = Extent>) {
        let version = self.version.load(Relaxed) + 1;
        // Pairs with the Acquire fence in `read`: if a reader sees any of the stores below, its second load
        // of the version finds at least `version - 1`. So a reader that started with an older version
        // retries.
        if !is_mutant!("extents_no_release") {
            fence(Release);
        }
        self.copies[version as usize % 2].len.store(extents.len() as u64, Relaxed);
        let all = self.copy(version);
        extents.enumerate().for_each(|(place, extent)| all.extent(place).set(extent));
        self.version.store(version, order!(Release, "extents_write"));
    }
}

/// A branch's pointer to its current latch.
#[derive(Debug)]
pub(crate) struct LatchedExtents(AtomicPtr<ExtentLatch>);

impl LatchedExtents {
    /// A null pointer: there is no latch yet.
    pub(crate) fn new() -> LatchedExtents {
        LatchedExtents(AtomicPtr::new(ptr::null_mut()))
    }

    /// Whether no extents have been published yet.
    #[inline]
    pub(crate) fn is_unused(&self) -> bool {
        // Acquire, as in `read`: a caller may rely on the result without a call of `read`.
        self.0.load(order!(Acquire, "extents_load")).is_null()
    }

    /// Returns the result of `with` for a consistent snapshot of the extents, or `None` if no extents were
    /// ever published. The caller must be pinned. `with` may run several times, and may find torn extents; a
    /// result that comes from torn extents is discarded.
    #[inline]
    pub(crate) fn read<R>(&self, with: impl Fn(View<'_>) -> R) -> Option<R> {
        // SAFETY: a replaced latch is freed after a grace period, and the caller is pinned. Acquire: pairs
        // with the publication, so this thread sees an initialized latch.
        let copies = unsafe { self.0.load(order!(Acquire, "extents_load")).as_ref() };
        copies.map(|copies| copies.read(with))
    }

    /// The current copy. The caller must have locked the branch. The view stays valid across one write,
    /// which fills the other copy.
    #[inline]
    pub(crate) fn view(&self) -> View<'_> {
        self.latch().map_or(View::EMPTY, |copies| copies.copy(copies.version.load(Relaxed)))
    }

    /// The latch. The caller must have locked the branch.
    #[inline]
    pub(crate) fn latch(&self) -> Option<&ExtentLatch> {
        // SAFETY: the latch is replaced only under the lock, which the caller holds, and freed after a grace
        // period.
        unsafe { self.0.load(Relaxed).as_ref() }
    }

    /// The latch's capacity. The caller must have locked the branch.
    #[inline]
    pub(crate) fn room(&self) -> usize {
        self.latch().map_or(0, ExtentLatch::room)
    }

    /// Publishes a new latch. Returns the old latch, which the caller must retire, because readers may still
    /// use it.
    ///
    /// # Safety
    /// The caller must have locked the branch, or have exclusive access to it.
    pub(crate) unsafe fn replace(&self, new: Box<ExtentLatch>) -> Option<NonNull<ExtentLatch>> {
        // Release publishes the latch's content. For the sake of loom, this is a swap instead of a load and a
        // store: loom would treat the store as dependent on the load, and would not explore the orders of the
        // store and the readers' loads.
        NonNull::new(self.0.swap(Box::into_raw(new), order!(Release, "extents_publish")))
    }
}

impl Drop for LatchedExtents {
    fn drop(&mut self) {
        let copies = NonNull::new(self.0.load(Relaxed));
        // SAFETY: the latch came from a box, and `drop` has exclusive access to the branch.
        copies.into_iter().for_each(|copies| drop(unsafe { Box::from_raw(copies.as_ptr()) }));
    }
}

/// A contiguous part of one copy of the extents, in page order.
#[derive(Debug, Clone, Copy)]
pub(crate) struct View<'a> {
    blocks: &'a [Block],
    first: usize,
    len: usize,
}

impl<'a> View<'a> {
    const EMPTY: View<'static> = View { blocks: &[], first: 0, len: 0 };

    #[inline]
    fn extent(self, place: usize) -> &'a AtomicExtent {
        let place = self.first + place;
        &self.blocks[place / BLOCK].0[place % BLOCK]
    }

    pub(crate) fn len(self) -> usize {
        self.len
    }

    #[inline]
    pub(crate) fn is_empty(self) -> bool {
        self.len == 0
    }

    #[inline]
    pub(crate) fn first(self) -> Option<Extent> {
        (self.len > 0).then(|| self.extent(0).get())
    }

    #[inline]
    pub(crate) fn iter(self) -> impl ExactSizeIterator<Item = Extent> + use<'a> {
        (0..self.len).map(move |place| self.extent(place).get())
    }

    /// Whether all extents are within `pages`.
    pub(crate) fn are_in(self, pages: Pages) -> bool {
        self.is_empty()
            || pages.start <= self.extent(0).pages().start
                && self.extent(self.len - 1).pages().end <= pages.end
    }

    /// The attributes of a page.
    #[inline]
    pub(crate) fn find(self, page: Page) -> Option<Attributes> {
        let after = self.places_until(|pages| pages.end <= page);
        let found = (after < self.len).then(|| self.extent(after).get())?;
        found.pages.contains(page).then_some(found.attributes)
    }

    /// The extents that overlap `pages`.
    #[inline]
    pub(crate) fn overlapping(self, pages: Pages) -> View<'a> {
        let first = self.places_until(|own| own.end <= pages.start);
        let rest = View { first: self.first + first, len: self.len - first, ..self };
        View { len: rest.places_until(|own| own.start < pages.end), ..rest }
    }

    /// The partition point: the number of leading extents for which `is_so` holds. Once `is_so` is false for
    /// an extent, it must be false for all later extents.
    #[inline]
    fn places_until(self, is_so: impl Fn(Pages) -> bool) -> usize {
        let (mut low, mut high) = (0, self.len);
        while low < high {
            let middle = low.midpoint(high);
            match is_so(self.extent(middle).pages()) {
                true => low = middle + 1,
                false => high = middle,
            }
        }
        low
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    use proptest::prelude::*;

    /// Fewer than 20 extents, with gaps and two kinds of attributes.
    fn extents() -> impl Strategy<Value = Vec<Extent>> {
        prop::collection::vec((0_u64..3, 1_u64..9, any::<bool>()), 0..20).prop_map(|parts| {
            let mut end = Page(0);
            let extent = |(gap, count, is_writable)| {
                let pages = Pages::new(end + gap, count);
                end = pages.end;
                let write = if is_writable { Protection::WRITE } else { Protection::NONE };
                Extent { pages, attributes: Attributes::anonymous(Protection::READ | write) }
            };
            parts.into_iter().map(extent).collect()
        })
    }

    proptest! {
        #[test]
        fn readers_find_the_last_write(lists in prop::collection::vec(extents(), 1..5), at in (0_u64..200).prop_map(Page)) {
            let latched = LatchedExtents::new();
            prop_assert!(latched.read(|_| ()).is_none() && latched.view().is_empty());
            // SAFETY: the test has exclusive access.
            let old = unsafe { latched.replace(Box::new(ExtentLatch::with_room(20).unwrap())) };
            prop_assert!(old.is_none() && latched.room() >= 20);
            for list in lists {
                // SAFETY: the test has exclusive access.
                unsafe { latched.latch().unwrap().write(list.iter().copied()) };
                prop_assert_eq!(&latched.view().iter().collect::<Vec<_>>(), &list);
                prop_assert_eq!(latched.view().first(), list.first().copied());
                let found = list.iter().find(|extent| extent.pages.contains(at));
                let found = found.map(|extent| extent.attributes);
                prop_assert_eq!(latched.read(|extents| extents.find(at)), Some(found));
                let pages = Pages::new(at, 7);
                let overlapping: Vec<_> = list.iter().filter(|extent| extent.pages.overlaps(pages)).collect();
                prop_assert!(latched.view().overlapping(pages).iter().eq(overlapping.into_iter().copied()));
                let are_in = list.iter().all(|extent| pages.covers(extent.pages));
                prop_assert_eq!(latched.view().are_in(pages), are_in);
            }
        }
    }

    /// The writer cycles through lists in which every extent encodes the length of its list, so a torn
    /// list differs from all of these lists.
    #[test]
    fn a_concurrent_reader_sees_a_consistent_list() {
        const ROUNDS: usize = if cfg!(miri) { 300 } else { 20_000 };
        let latched = LatchedExtents::new();
        let list = |number: u64| {
            let attributes = Attributes::anonymous(Protection::READ);
            let extent = move |place| Extent {
                pages: Pages::new(Page(number + 8 * place), number),
                attributes,
            };
            (0..number).map(extent).collect::<Vec<_>>()
        };
        // SAFETY: no other thread has access yet.
        unsafe {
            latched.replace(Box::new(ExtentLatch::with_room(8).unwrap()));
            latched.latch().unwrap().write(list(1).into_iter());
        }
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for number in (1..=8).cycle().take(ROUNDS) {
                    // SAFETY: this is the only writer.
                    unsafe { latched.latch().unwrap().write(list(number).into_iter()) };
                }
            });
            for _ in 0..ROUNDS {
                let found: Vec<_> = latched.read(|extents| extents.iter().collect()).unwrap();
                assert_eq!(found, list(found.len() as u64));
            }
        });
    }
}
