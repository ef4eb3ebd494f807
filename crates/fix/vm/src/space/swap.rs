//! Swap-out, swap-in and reclaim of private pages.

use alloc::sync::Arc;
use core::mem::ManuallyDrop;
use core::sync::atomic::Ordering::Relaxed;

use knee_sync::shim::{AtomicU64, is_mutant};

use super::Space;
use super::fault::{Before, Step, publish};
use crate::backing::pager::PagerError;
use crate::cpu::{Cpu, PerCpuPool};
use crate::error::{Fault, OutOfMemory};
use crate::machine::Machine;
use crate::machine::format::ABSENT;
use crate::needed::Needed;
use crate::page::{Frame, Page, Pages};
use crate::quota::Quota;
use crate::swap::{State, Swap, Transfer};
use crate::transaction::gather::TlbGather;
use crate::tree::node::{Leaf, Swapped};

/// The maximum number of pages that are flushed with one shootdown and then written to the device: Linux's
/// `SWAP_CLUSTER_MAX`.
const BATCH: usize = 32;

/// A page that is being swapped out.
#[derive(Debug, Clone, Copy)]
struct Victim {
    page: Page,
    frame: Frame,
    slot: u64,
}

/// Reserved slots, and the pages that will be written to the first of them.
///
/// Dropping a batch gives back the slots without a page. If the device has panicked, it also puts back the
/// pages that were not written.
struct Batch<'a, 'm, M: Machine> {
    space: &'a Space<'m, M>,
    cpu: &'a Cpu<'m, M>,
    swap: &'a Swap,
    victims: [Victim; BATCH],
    /// Number of pages that are on the device, or back in memory.
    done: usize,
    /// Number of pages.
    used: usize,
    /// Number of slots.
    reserved: usize,
}

impl<'a, 'm, M: Machine> Batch<'a, 'm, M> {
    /// Reserves slots for at most `count` pages.
    fn new(
        space: &'a Space<'m, M>,
        cpu: &'a Cpu<'m, M>,
        swap: &'a Swap,
        count: u64,
    ) -> Batch<'a, 'm, M> {
        let none = Victim { page: Page(0), frame: Frame(0), slot: 0 };
        let (mut victims, mut reserved) = ([none; BATCH], 0);
        for victim in victims.iter_mut().take(count.min(BATCH as u64) as usize) {
            let Some(slot) = swap.reserve() else { break };
            victim.slot = slot;
            reserved += 1;
        }
        Batch { space, cpu, swap, victims, done: 0, used: 0, reserved }
    }

    /// Gives back the slots without a page.
    fn shrink(&mut self) {
        while self.reserved > self.used {
            self.reserved -= 1;
            self.swap.cancel(self.space.machine, self.victims[self.reserved].slot);
        }
    }

    /// Adds a page to the batch. Returns the slot to which the page's entry must refer from now on, or `None`
    /// if no slot is left.
    fn add(&mut self, page: Page, frame: Frame) -> Option<u64> {
        let victim = self.victims[..self.reserved].get_mut(self.used)?;
        (victim.page, victim.frame) = (page, frame);
        self.used += 1;
        self.swap.share(victim.slot);
        Some(victim.slot)
    }

    /// The first page that is not done.
    fn first(&self) -> Option<Victim> {
        self.victims[..self.used].get(self.done).copied()
    }

    /// Writes the pages, which all CPUs have flushed, to the device. Adds the number of freed frames to
    /// `freed`.
    fn write_out(&mut self, freed: &mut u64) -> Result<(), PagerError> {
        let (swap, machine, mut result) = (self.swap, self.space.machine, Ok(()));
        while let Some(victim) = self.first() {
            let Victim { frame, slot, .. } = victim;
            // SAFETY: the frame was private, neither shared nor pinned, and its only entry is gone. All CPUs
            // have flushed this entry.
            let written = unsafe { swap.write(machine, slot, frame) };
            self.done += 1;
            match written {
                Ok(()) => {
                    swap.end(slot, State::Stored);
                    swap.release(machine, slot, 1);
                    // The frame does not go to the pool of this CPU, where other CPUs could not allocate it.
                    // SAFETY: as above.
                    unsafe { machine.free(&[frame]) };
                    *freed += 1;
                }
                Err(error) => {
                    result = Err(error);
                    self.space.put_back(self.cpu, swap, victim);
                }
            }
        }
        result
    }
}

impl<M: Machine> Drop for Batch<'_, '_, M> {
    fn drop(&mut self) {
        while let Some(victim) = self.first().filter(|_| !is_mutant!("panic_keeps_victims")) {
            self.done += 1;
            self.space.put_back(self.cpu, self.swap, victim);
        }
        self.shrink();
    }
}

/// A read of a slot's content into a new frame. Dropping this, even if the device has panicked, ends the
/// transfer and this CPU's use of the slot, and frees the frame.
struct SlotRead<'a, 'm, M: Machine> {
    cpu: &'a Cpu<'m, M>,
    swap: &'a Swap,
    slot: u64,
    frame: Frame,
    /// The state of the slot before the transfer, or `None` if the transfer has ended.
    before: Option<State>,
}

impl<M: Machine> SlotRead<'_, '_, M> {
    fn end_transfer(&mut self) {
        self.before.take().into_iter().for_each(|before| self.swap.end(self.slot, before));
    }

    /// Ends the use of the slot by this CPU and by the page's entry, which has the frame now.
    fn complete(self) {
        let read = ManuallyDrop::new(self);
        read.swap.release(read.cpu.machine(), read.slot, 2);
    }
}

impl<M: Machine> Drop for SlotRead<'_, '_, M> {
    fn drop(&mut self) {
        if !is_mutant!("panic_keeps_transfer") {
            self.end_transfer();
        }
        self.swap.release(self.cpu.machine(), self.slot, 1);
        // SAFETY: the frame was never mapped.
        unsafe { self.cpu.free(self.frame) };
    }
}

impl<'m, M: Machine> Space<'m, M> {
    /// Creates an address space in which nothing is mapped, and whose private pages can be
    /// [swapped out](Space::reclaim) to `swap`. The pages of the space are charged to `quota`, if there is
    /// one. Swapped pages stay charged, because they are still mapped.
    ///
    /// # Errors
    /// If there is no memory for the root of the space.
    ///
    /// # Panics
    /// If `quota` was made for fewer CPUs than the machine has.
    pub fn with_swap(
        cpu: &Cpu<'m, M>,
        quota: Option<Arc<Quota>>,
        swap: Arc<Swap>,
    ) -> Result<Space<'m, M>, OutOfMemory> {
        Space::new_within(cpu, quota, Some(swap))
    }

    /// Frees frames of pages that programs have not used for a while: swaps out up to `count` private pages,
    /// and returns how many frames it has freed. Call this when memory is scarce, as Linux calls
    /// `shrink_lruvec`. To reclaim pages of objects, use [`Object::evict`](crate::Object::evict).
    ///
    /// This is the clock algorithm. A hand moves over the pages of the space. It swaps out each page that was
    /// not accessed since the hand last passed; from other pages, it clears
    /// [`Usage::ACCESSED`](crate::Usage::ACCESSED). Pages that allow no access count as not accessed. The
    /// next call continues where this one stopped. A [large page](Space::set_large_pages) counts as one page
    /// for the hand, which splits the large page only if none of it was accessed. A call ends when it has
    /// freed `count` frames, after two rounds, or when all slots are in use.
    ///
    /// Private pages are anonymous memory, and private copies of pages that belong to objects. The hand skips
    /// pages that the space shares copy-on-write with a fork, and [pinned](Space::pin) pages. In a space
    /// without [swap](Space::with_swap), this method does nothing.
    ///
    /// The freed frames go to the machine, so all CPUs can allocate them.
    ///
    /// A swapped page is still mapped, and all operations treat it as such. The next access reads it into a
    /// new frame. If several CPUs access the page at the same time, only one reads it from the device, and
    /// the others fail with [`Fault::Retry`]. An access while the page is being written to the device fails
    /// in the same way. A page that was read from the device counts as accessed and
    /// [dirty](crate::Usage::DIRTY), as every new page does. A fork gets the swapped pages without reading
    /// them, and each of the two spaces reads them into frames of its own.
    ///
    /// A reclaim allocates no memory. So it works even when memory has run out, unless the device needs
    /// memory. It visits one leaf table at a time, and takes the same locks as any other operation on the
    /// pages of that leaf. Each visit swaps out up to 32 pages, and executes at most one shootdown, which
    /// also covers the cleared accessed bits. No locks are held while the device works. The time is linear in
    /// the number of leaf tables and present pages that the hand passes.
    ///
    /// # Errors
    /// The device's error. The pages that the device did not accept stay in memory. The frames of other pages
    /// may have been freed.
    pub fn reclaim(&self, cpu: &Cpu<'m, M>, count: u64) -> Result<u64, PagerError> {
        self.check_cpu(cpu);
        let (all, hand) = (self.pages(), &self.tree().hand.0);
        let start = Page(hand.load(Relaxed));
        let (before, after) = (Pages { end: start, ..all }, Pages { start, ..all });
        let mut freed = 0;
        // Two rounds, both from `start`: if all pages were accessed, the first round only clears accessed
        // bits.
        for pages in [after, all, before] {
            let at =
                |page: Page| hand.store(if page < all.end { page } else { all.start }.0, Relaxed);
            freed += self.swap_out_some(cpu, pages, count - freed, true, at)?;
        }
        Ok(freed)
    }

    /// Swaps out the present private pages among `pages`, whether or not they were accessed recently:
    /// `MADV_PAGEOUT`. Skips the same pages as [`reclaim`](Space::reclaim), and pages outside of the space.
    /// Returns how many frames it has freed.
    ///
    /// # Errors
    /// See [`reclaim`](Space::reclaim).
    pub fn swap_out(&self, cpu: &Cpu<'m, M>, pages: Pages) -> Result<u64, PagerError> {
        self.check_cpu(cpu);
        self.swap_out_some(cpu, pages.and(self.pages()), u64::MAX, false, |_| ())
    }

    /// Swaps out up to `count` of `pages`, in batches. After each batch, calls `at` with the next page to
    /// visit.
    fn swap_out_some(
        &self,
        cpu: &Cpu<'m, M>,
        mut pages: Pages,
        count: u64,
        spares_accessed: bool,
        at: impl Fn(Page),
    ) -> Result<u64, PagerError> {
        let Some(swap) = self.tree().swap() else { return Ok(0) };
        let (mut freed, mut result) = (0, Ok(()));
        while result.is_ok()
            && let Some(part) = self.first_leaf_span(cpu, pages)
        {
            let mut batch = Batch::new(self, cpu, swap, part.count().min(count - freed));
            if batch.reserved == 0 {
                break;
            }
            let mut gather = TlbGather::new();
            let mut next = part.end;
            let done = self.tree().locked(cpu, part, |locked, _| {
                locked.for_each_leaf(|leaf| {
                    let slot = |page, frame| batch.add(page, frame);
                    next = gather.swap_out(self.machine, leaf, part, spares_accessed, slot);
                });
                Ok(())
            });
            debug_assert!(done.is_ok(), "the step needs no memory");
            // Other CPUs may need the slots while the device works.
            if !is_mutant!("swap_keeps_slots") {
                batch.shrink();
            }
            if is_mutant!("swap_writes_first") {
                _ = batch.write_out(&mut freed);
            }
            // SAFETY: the frames that left the tables belong to the batch.
            unsafe { gather.finish(self.tree(), cpu) };
            result = batch.write_out(&mut freed);
            pages.start = next;
            at(next);
        }
        result.map(|()| freed)
    }

    /// Makes a page present again in its old frame, because the device did not accept it. If the page has
    /// been moved or copied since, the slot keeps the frame.
    fn put_back(&self, cpu: &Cpu<'m, M>, swap: &Swap, Victim { page, frame, slot }: Victim) {
        // The transfer has not ended yet, so no other CPU reads the slot. If this CPU and the page's locked
        // entry are the only users of the slot, `install` gives the frame back to the entry.
        let is_back = self.install(cpu, page, slot, frame, true);
        swap.end(slot, if is_back { State::Stored } else { State::Kept(frame) });
        swap.release(self.machine, slot, if is_back { 2 } else { 1 });
    }

    /// Begins to read a slot for a fault. The step is `Retry` if another CPU is transferring the slot's page.
    #[cold]
    pub(super) fn begin_swap_in<'a>(
        &self,
        slot: u64,
        pool: &PerCpuPool,
    ) -> Result<Step<'a, 'm, M>, Needed> {
        pool.frames.has_page()?;
        let swap = self.tree().swap().expect("a page was swapped out");
        Ok(swap.begin(slot).map_or(Step::Done(Err(Fault::Retry)), Step::SwapIn))
    }

    /// Reads a swapped page into a new frame, and makes the page present. Returns false if the page has been
    /// unmapped or moved meanwhile, or if another CPU has made it present. The CPU's pool must have a page.
    #[cold]
    pub(super) fn swap_in(
        &self,
        cpu: &Cpu<'m, M>,
        page: Page,
        transfer: Transfer,
    ) -> Result<bool, Fault> {
        let swap = self.tree().swap().expect("a page was swapped out");
        let frame = cpu.with_pool(|pool| pool.frames.page());
        let frame = frame.expect("this CPU's pool has a reserved page");
        let slot = transfer.slot;
        let mut read = SlotRead { cpu, swap, slot, frame, before: Some(transfer.before) };
        // SAFETY: the new frame is ours.
        let result = unsafe { swap.read(self.machine, &transfer, frame) };
        read.end_transfer();
        let is_in = result.is_ok() && self.install(cpu, page, slot, frame, false);
        if is_in {
            read.complete();
        }
        match result {
            Ok(()) => Ok(is_in),
            Err(PagerError::Retry) => Err(Fault::Retry),
            Err(PagerError::Failed) => Err(Fault::PagerFailed),
        }
    }

    /// Makes the page present in `frame`, which must have the slot's content, and returns true. Returns
    /// false, and changes nothing, if the page's entry no longer refers to the slot or, with `is_alone`, if
    /// the slot has users besides the entry and the caller. The caller must be a user of the slot. If the
    /// result is true, the caller must release two uses of the slot: the caller's and the entry's.
    fn install(
        &self,
        cpu: &Cpu<'m, M>,
        page: Page,
        slot: u64,
        frame: Frame,
        is_alone: bool,
    ) -> bool {
        let result = self
            .drive_in_leaf(cpu, page, |leaf, _| self.install_in(leaf, page, slot, frame, is_alone));
        result == Ok(Before::Absent)
    }

    /// An attempt at [`install`](Space::install), in a locked leaf.
    fn install_in<'a>(
        &self,
        leaf: &'a Leaf,
        page: Page,
        slot: u64,
        frame: Frame,
        is_alone: bool,
    ) -> Result<Step<'a, 'm, M>, Needed> {
        if self.tree().fork_lock.is_locked() {
            return Ok(Step::Wait(leaf));
        }
        let mut swapped = leaf.swapped_in::<M::Format>(Pages::new(page, 1));
        let found = swapped.next().filter(|found| found.slot == slot);
        let is_shared = || {
            let swap = self.tree().swap();
            swap.is_some_and(|swap| swap.is_shared(slot)) && !is_mutant!("put_back_shared")
        };
        let Some(Swapped { entry, .. }) = found.filter(|_| !(is_alone && is_shared())) else {
            return Ok(Step::Done(Ok(())));
        };
        let attributes = leaf.attributes(page).expect("a swapped page is mapped");
        self.init_private(frame, page, attributes.protection);
        publish::<M>(entry, frame, attributes.protection);
        leaf.swapped().set(leaf.swapped().get() - 1);
        leaf.present().set(leaf.present().get() + 1);
        Ok(Step::MadePresent(1))
    }

    /// Removes the swapped pages among `pages` from a locked leaf's table. No TLB has entries for swapped
    /// pages.
    #[inline]
    pub(super) fn take_swapped(&self, leaf: &Leaf, pages: Pages) {
        if leaf.swapped().get() > 0 {
            self.take_some_swapped(leaf, pages);
        }
    }

    #[cold]
    fn take_some_swapped(&self, leaf: &Leaf, pages: Pages) {
        let Some(swap) = self.tree().swap() else { return };
        for Swapped { entry, slot, .. } in leaf.swapped_in::<M::Format>(pages) {
            if is_mutant!("discard_keeps_slot") {
                continue;
            }
            entry.store(ABSENT, Relaxed);
            leaf.swapped().set(leaf.swapped().get() - 1);
            swap.release(self.machine, slot, 1);
        }
    }

    /// Copies the entries of swapped pages to the leaf of a fork. Both leaves must be locked, and the fork's
    /// leaf must have a table.
    pub(super) fn copy_swapped(&self, from: &Leaf, to: &Leaf) {
        let (Some(swap), Some(entries)) = (self.tree().swap(), to.table()) else { return };
        for Swapped { page, entry, slot, .. } in from.swapped_in::<M::Format>(from.span()) {
            if !is_mutant!("slot_freed_early") {
                swap.share(slot);
            }
            entries[to.slot(page)].store(entry.load(Relaxed), Relaxed);
            to.swapped().set(to.swapped().get() + 1);
        }
    }
}

/// Moves the entry of a swapped page to another page, whose entry must be absent. Both leaves must be locked,
/// and the leaf of the other page must have a table.
pub(super) fn move_swapped((leaf, entry): (&Leaf, &AtomicU64), (to, page): (&Leaf, Page)) {
    let entries = to.table().expect("the destination has a table");
    entries[to.slot(page)].store(entry.swap(ABSENT, Relaxed), Relaxed);
    leaf.swapped().set(leaf.swapped().get() - 1);
    to.swapped().set(to.swapped().get() + 1);
}
