//! The shared state of all spaces of a machine, and operations on page tables.

use std::fmt;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use crossbeam_utils::CachePadded;
use knee_vm::{
    ABSENT, Cpu, Entry, Fault, Format, Frame, Machine, OutOfMemory, PAGE, Page, Pages, Protection,
};

use super::accounting::Accounting;
use super::frames::Frames;
use super::lock::Lock;
use super::on_cpu::OnCpu;
use super::pmap::{Pmap, slot};
use super::reverse::{Mapping, Reverse};
use super::strategies::{BackingOf, Strategies};
use crate::invalidation::{Invalidation, Stamp};

/// The shared state of all [spaces](super::Space) of a machine: the reverse map, the sections of delayed
/// invalidation, and the accounting. A machine has one `Memory`.
pub struct Memory<'m, M: Machine, S: Strategies> {
    pub(super) frames: Frames<'m, M, S::Reverse>,
    form: S::Invalidation,
    places: Box<[CachePadded<<S::Invalidation as Invalidation>::Place>]>,
    pub(super) accounting: S::Accounting,
    /// The list of frames that no table contains any more, but to which TLB entries may still point.
    limbo: Lock<u64>,
}

/// The end of a frame list.
const END: u64 = u64::MAX;

impl<'m, M: Machine, S: Strategies> Memory<'m, M, S> {
    /// Creates the state for a machine whose frame numbers are less than `frames`. At most `limit` pages may
    /// be mapped. `form` is the implementation of [delayed invalidation](crate::invalidation).
    ///
    /// # Errors
    /// If there is not enough memory for a record of each frame.
    pub fn new(
        machine: &'m M,
        frames: usize,
        limit: u64,
        form: S::Invalidation,
    ) -> Result<Self, OutOfMemory> {
        let mut places = Vec::new();
        places.try_reserve_exact(machine.cpus())?;
        places.resize_with(machine.cpus(), || CachePadded::new(form.place()));
        Ok(Memory {
            frames: Frames::new(machine, frames)?,
            places: places.into_boxed_slice(),
            accounting: S::Accounting::new(machine, limit)?,
            form,
            limbo: Lock::new(END),
        })
    }

    /// Returns the number of mapped pages of all spaces together. The number is exact only if there are no
    /// concurrent changes.
    pub fn used(&self) -> u64 {
        self.accounting.used()
    }

    /// Returns the mappings of a frame from the reverse map: space numbers and pages, in any order. The
    /// result is exact only if there are no concurrent changes.
    ///
    /// # Panics
    /// If the machine has no such frame.
    pub fn mappings(&self, cpu: &Cpu<'m, M>, frame: Frame) -> Vec<(u64, Page)> {
        let mut all = Vec::new();
        S::Reverse::for_mappings(&self.frames, cpu, frame, |space, page| all.push((space, page)));
        all
    }

    /// # Panics
    /// If the CPU belongs to another machine.
    #[inline]
    pub(super) fn check(&self, cpu: &Cpu<'m, M>) {
        assert!(
            std::ptr::eq(self.frames.machine, cpu.machine()),
            "the CPU belongs to another machine"
        );
    }

    /// Begins a section, in which the CPU removes pages from tables and then flushes their TLB entries.
    #[inline]
    fn begin<'a>(&'a self, cpu: &'a Cpu<'m, M>) -> Section<'a, 'm, M, S> {
        // SAFETY: only this CPU calls `begin`, `mark` and `finish` with its place (the CPU's state in
        // `self.form`). The CPU is not in a section: each function in this file that begins a section also
        // ends it, and calls no function that begins another section in between. The places are used only
        // with `self.form`, and stay in their box as long as `self.form` exists.
        unsafe { self.form.begin(&self.places[cpu.number()], &OnCpu::of(cpu)) };
        Section { memory: self, cpu }
    }

    /// Waits until all CPUs have flushed the former mappings of a frame. The caller must not be in a section
    /// or hold the lock of a table.
    fn wait(&self, cpu: &Cpu<'m, M>, frame: Frame) {
        // Sections mark the stamp under this lock, so `wait` below sees all earlier marks.
        drop(self.frames.lock_bucket(frame));
        let places = self.places.iter().map(|place| &**place);
        self.form.wait(places, &self.frames.bucket(frame).stamp, &OnCpu::of(cpu));
    }

    /// Frees a frame that is in no table. All CPUs must have flushed the caller's mapping of the frame. If
    /// other spaces have mapped the frame too, waits for the flushes of their mappings.
    #[inline]
    fn frame_recycled(&self, cpu: &Cpu<'m, M>, frame: Frame) {
        if self.frames.record(frame).was_shared.load(Relaxed) {
            self.wait(cpu, frame);
        }
        // SAFETY: no table contains the frame, and all CPUs have flushed it.
        unsafe { self.frames.pools.free(cpu, frame) };
    }

    /// Frees a frame that is in no table, for a caller that cannot wait. If TLB entries may still point to
    /// the frame, a later [`catch_up`](Memory::catch_up) frees it.
    pub(super) fn put_off(&self, frame: Frame) {
        if self.frames.record(frame).was_shared.load(Relaxed) {
            let mut limbo = self.limbo.lock_briefly();
            self.frames.record(frame).next.store(*limbo, Relaxed);
            *limbo = frame.0;
        } else {
            // SAFETY: no table contains the frame, and the only space that had mapped it was dropped.
            unsafe { self.frames.machine.free(&[frame]) };
        }
    }

    /// Frees the frames that were [put off](Memory::put_off).
    pub(super) fn catch_up(&self, cpu: &Cpu<'m, M>) {
        let mut next = std::mem::replace(&mut *self.limbo.lock_briefly(), END);
        while next != END {
            let frame = Frame(next);
            next = self.frames.record(frame).next.load(Relaxed);
            self.frame_recycled(cpu, frame);
        }
    }

    /// Prepares a frame of zeros, for a caller whose allocation has failed. If necessary, first frees the
    /// frames that were [put off](Memory::put_off).
    #[cold]
    fn find_page(&self, cpu: &Cpu<'m, M>) -> Result<(), OutOfMemory> {
        self.frames.pools.refill_page(cpu).or_else(|_| {
            self.catch_up(cpu);
            self.frames.pools.refill_page(cpu)
        })
    }

    /// Makes a page present for an access that the map entry allows: `pmap_enter`. The map entry cannot
    /// change meanwhile. Returns the number of pages that became present.
    #[inline]
    pub(super) fn enter(
        &self,
        cpu: &Cpu<'m, M>,
        pmap: &Pmap<S::Reverse>,
        page: Page,
        (protection, access): (Protection, Protection),
        backing: &BackingOf<S>,
    ) -> Result<u64, Fault> {
        let table = self.frames.leaf(cpu, pmap, page)?;
        let entry = &self.frames.table(table)[slot(page, 0)];
        let writes = access.contains(Protection::WRITE);
        let mut settled = None;
        loop {
            // A failure of this allocation matters only if the frame is needed below.
            let _ = self.frames.pools.refill_page(cpu);
            let mut whole = pmap.lock_whole(cpu);
            let guard = self.frames.lock_table(cpu, table);
            let (Entry::Page { frame, .. } | Entry::ProtNone(frame)) =
                M::Format::read(entry.load(Relaxed), 0)
            else {
                S::Reverse::reserve(&self.frames, cpu, pmap, whole.space())?;
                let Some(frame) = self.frames.pools.page(cpu) else {
                    drop((guard, whole));
                    self.find_page(cpu)?;
                    continue;
                };
                let of = Mapping { pmap, space: whole.space(), page };
                S::Reverse::insert(&self.frames, of, frame, backing);
                // Release: a CPU that finds the frame in this entry also sees the frame's zeros.
                entry.store(M::Format::page_or_prot_none(frame, protection), Release);
                return Ok(1);
            };
            let record = self.frames.record(frame);
            let mut allowed = protection;
            if record.was_shared.load(Relaxed) {
                if !writes {
                    allowed = protection.difference(Protection::WRITE);
                } else if self.frames.is_shared(frame) {
                    S::Reverse::reserve(&self.frames, cpu, pmap, whole.space())?;
                    let Some(new) = self.frames.pools.page(cpu) else {
                        drop((guard, whole));
                        self.find_page(cpu)?;
                        continue;
                    };
                    // All CPUs flush the translation to the old frame before any of them can access the new
                    // frame.
                    entry.store(ABSENT, Relaxed);
                    pmap.shoot_down(cpu, Pages::new(page, 1));
                    let address = |frame| self.frames.machine.address(frame);
                    // SAFETY: only this thread owns the new frame. The old frame's count still includes the
                    // cleared entry, so no thread frees the frame or writes to it.
                    unsafe { address(frame).copy_to_nonoverlapping(address(new), PAGE) };
                    let of = Mapping { pmap, space: whole.space(), page };
                    let free = |frame| self.free(cpu, frame);
                    let is_last = S::Reverse::remove(&self.frames, of, frame, |_| (), free);
                    let of = Mapping { pmap, space: whole.space(), page };
                    S::Reverse::insert(&self.frames, of, new, backing);
                    // Release: a CPU that finds the frame in this entry also sees the copied content.
                    entry.store(M::Format::page(new, protection), Release);
                    drop((guard, whole));
                    if is_last {
                        self.frame_recycled(cpu, frame);
                    }
                    return Ok(0);
                } else if settled != Some(frame) {
                    // Only this space maps the frame, but other CPUs' TLBs may still contain former mappings
                    // of the frame. Through a stale TLB entry, another CPU could read the new data. This
                    // thread cannot wait with locks held, because the sections that it waits for may wait for
                    // these locks.
                    drop((guard, whole));
                    self.wait(cpu, frame);
                    settled = Some(frame);
                    continue;
                } else {
                    record.was_shared.store(false, Relaxed);
                }
            }
            // Release: a CPU that finds the frame in this entry also sees the frame's content.
            entry.store(M::Format::page_or_prot_none(frame, allowed), Release);
            return Ok(0);
        }
    }

    fn free(&self, cpu: &Cpu<'m, M>, frame: Frame) {
        // SAFETY: the reverse map does not use the frame any more, and no table contains the frame.
        unsafe { self.frames.pools.free(cpu, frame) };
    }

    /// Removes these pages from the tables and frees their frames: `pmap_remove`. Returns the number of these
    /// pages that were present.
    pub(super) fn remove(&self, cpu: &Cpu<'m, M>, pmap: &Pmap<S::Reverse>, pages: Pages) -> u64 {
        let (mut first, mut count) = (END, 0);
        let mut gone = Pages { start: Page(u64::MAX), end: Page(0) };
        // Increment `flushing` before taking any table lock. So if another operation finds an entry that this
        // operation has cleared but not flushed yet, the other operation also sees the increment.
        pmap.flushing.fetch_add(1, Relaxed);
        let section = self.begin(cpu);
        let mut whole = pmap.lock_whole(cpu);
        self.frames.for_leaves(pmap, pages, &mut |table, pages| {
            let _guard = self.frames.lock_table(cpu, table);
            let entries = self.frames.table(table);
            for page in pages.iter() {
                let entry = &entries[slot(page, 0)];
                let entry_now = entry.load(Relaxed);
                let (Entry::Page { frame, .. } | Entry::ProtNone(frame)) =
                    M::Format::read(entry_now, 0)
                else {
                    continue;
                };
                entry.store(ABSENT, Relaxed);
                gone = Pages { start: gone.start.min(page), end: gone.end.max(page + 1) };
                count += 1;
                let of = Mapping { pmap, space: whole.space(), page };
                let (mark, free) = (|stamp: &_| section.mark(stamp), |frame| self.free(cpu, frame));
                if S::Reverse::remove(&self.frames, of, frame, mark, free) {
                    self.frames.record(frame).next.store(first, Relaxed);
                    first = frame.0;
                }
            }
        });
        // Concurrent operations may have removed some of these pages and not flushed them yet. When this
        // operation returns, no TLB may contain any of its pages. So if other operations are in progress,
        // flush all pages of this operation, like Linux's `mm_tlb_flush_nested`. Acquire: the flushes of
        // finished operations happen before this load.
        if pmap.flushing.load(Acquire) > 1 {
            gone = pages;
        }
        if !gone.is_empty() {
            pmap.shoot_down(cpu, gone);
        }
        drop(whole);
        drop(section);
        // Release: pairs with another operation's load of `flushing` above.
        pmap.flushing.fetch_sub(1, Release);
        while first != END {
            let frame = Frame(first);
            first = self.frames.record(frame).next.load(Relaxed);
            self.frame_recycled(cpu, frame);
        }
        count
    }

    /// Revokes from present pages the rights that `protection` does not grant: `pmap_protect`. No section is
    /// needed, because no frame loses a mapping.
    pub(super) fn restrict(
        &self,
        cpu: &Cpu<'m, M>,
        pmap: &Pmap<S::Reverse>,
        pages: Pages,
        protection: Protection,
    ) {
        let mut changed = Pages { start: Page(u64::MAX), end: Page(0) };
        let _whole = pmap.lock_whole(cpu);
        self.frames.for_leaves(pmap, pages, &mut |table, pages| {
            let _guard = self.frames.lock_table(cpu, table);
            let entries = self.frames.table(table);
            for page in pages.iter() {
                let entry = &entries[slot(page, 0)];
                let now = M::Format::read(entry.load(Relaxed), 0);
                let Entry::Page { frame, protection: old, .. } = now else { continue };
                let allowed = old & protection;
                if allowed != old {
                    // Release: a CPU that finds the frame in this entry also sees the frame's content.
                    entry.store(M::Format::page_or_prot_none(frame, allowed), Release);
                    changed =
                        Pages { start: changed.start.min(page), end: changed.end.max(page + 1) };
                }
            }
        });
        if !changed.is_empty() {
            pmap.shoot_down(cpu, changed);
        }
    }

    /// Maps the frames of a space in its copy, and write-protects them in both spaces: `pmap_copy`,
    /// `copy_page_range`. The caller has locked the map of `from` for writing, and no other thread uses the
    /// copy. Returns the number of present pages. If this fails, the copy may already map some of the frames.
    pub(super) fn copy(
        &self,
        cpu: &Cpu<'m, M>,
        from: &Pmap<S::Reverse>,
        to: &Pmap<S::Reverse>,
        pages: Pages,
    ) -> Result<u64, OutOfMemory> {
        let (mut result, mut count) = (Ok(()), 0);
        let mut changed = Pages { start: Page(u64::MAX), end: Page(0) };
        let whole = from.lock_whole(cpu);
        self.frames.for_leaves(from, pages, &mut |table, pages| {
            if result.is_err() {
                return;
            }
            let copy = match self.frames.leaf(cpu, to, pages.start) {
                Ok(copy) => self.frames.table(copy),
                Err(error) => return result = Err(error),
            };
            let mut copy_whole = to.lock_whole(cpu);
            let _guard = self.frames.lock_table(cpu, table);
            let entries = self.frames.table(table);
            for page in pages.iter() {
                let entry = &entries[slot(page, 0)];
                let (frame, old) = match M::Format::read(entry.load(Relaxed), 0) {
                    Entry::Page { frame, protection, .. } => (frame, protection),
                    Entry::ProtNone(frame) => (frame, Protection::NONE),
                    _ => continue,
                };
                result = S::Reverse::reserve(&self.frames, cpu, to, copy_whole.space());
                if result.is_err() {
                    return;
                }
                let of = Mapping { pmap: to, space: copy_whole.space(), page };
                S::Reverse::share(&self.frames, of, frame);
                count += 1;
                let new = M::Format::page_or_prot_none(frame, old.difference(Protection::WRITE));
                if old.contains(Protection::WRITE) {
                    // Release: a CPU that finds the frame in this entry also sees the frame's content.
                    entry.store(new, Release);
                    changed =
                        Pages { start: changed.start.min(page), end: changed.end.max(page + 1) };
                }
                // Release: as above.
                copy[slot(page, 0)].store(new, Release);
            }
        });
        if !changed.is_empty() {
            from.shoot_down(cpu, changed);
        }
        drop(whole);
        result.map(|()| count)
    }
}

impl<M: Machine, S: Strategies> Drop for Memory<'_, M, S> {
    fn drop(&mut self) {
        // All spaces were dropped, and no thread is in a section.
        let mut next = *self.limbo.get_mut();
        while next != END {
            // SAFETY: no table contains the frame, and all CPUs have flushed it.
            unsafe { self.frames.machine.free(&[Frame(next)]) };
            next = self.frames.record(Frame(next)).next.load(Relaxed);
        }
    }
}

impl<M: Machine, S: Strategies> fmt::Debug for Memory<'_, M, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Memory").field("accounting", &self.accounting).finish_non_exhaustive()
    }
}

/// A section, which lasts from the removal of the first page from a table to the flush of all removed pages.
struct Section<'a, 'm, M: Machine, S: Strategies> {
    memory: &'a Memory<'m, M, S>,
    cpu: &'a Cpu<'m, M>,
}

impl<M: Machine, S: Strategies> Section<'_, '_, M, S> {
    #[inline]
    fn mark(&self, stamp: &Stamp) {
        // SAFETY: as in `Memory::begin`, which has begun this section.
        unsafe { self.memory.form.mark(&self.memory.places[self.cpu.number()], stamp) };
    }
}

impl<M: Machine, S: Strategies> Drop for Section<'_, '_, M, S> {
    #[inline]
    fn drop(&mut self) {
        let place = &self.memory.places[self.cpu.number()];
        // SAFETY: as in `Memory::begin`, which has begun this section.
        unsafe { self.memory.form.finish(place, &OnCpu::of(self.cpu)) };
    }
}
