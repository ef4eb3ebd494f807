//! What all spaces of a machine have together, and what is done with tables.

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

/// What all [spaces](super::Space) of a machine that follow the same strategies have together: where each
/// frame is mapped, who is invalidating, and how much is mapped. A machine has one.
pub struct Memory<'m, M: Machine, S: Strategies> {
    pub(super) frames: Frames<'m, M, S::Reverse>,
    form: S::Invalidation,
    places: Box<[CachePadded<<S::Invalidation as Invalidation>::Place>]>,
    pub(super) accounting: S::Accounting,
    /// The first frame of those that nobody has any more, and that CPUs may still know.
    limbo: Lock<u64>,
}

/// The end of a list of frames.
const END: u64 = u64::MAX;

impl<'m, M: Machine, S: Strategies> Memory<'m, M, S> {
    /// The memory of a machine whose frames have smaller numbers than `frames`, of which so many pages
    /// may be mapped. `form` is the form of [delayed invalidation](crate::invalidation).
    ///
    /// # Errors
    /// There is no memory for a record of each frame.
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

    /// Pages that are mapped in all spaces. Exact if nobody maps or unmaps meanwhile.
    pub fn used(&self) -> u64 {
        self.accounting.used()
    }

    /// Where a frame is mapped, by the reverse map: the numbers of spaces and the pages there, in any
    /// order. Exact if nobody changes that meanwhile.
    ///
    /// # Panics
    /// If the machine has no such frame.
    pub fn mappings(&self, cpu: &Cpu<'m, M>, frame: Frame) -> Vec<(u64, Page)> {
        let mut all = Vec::new();
        S::Reverse::for_mappings(&self.frames, cpu, frame, |space, page| all.push((space, page)));
        all
    }

    /// # Panics
    /// If the CPU is another machine's.
    #[inline]
    pub(super) fn check(&self, cpu: &Cpu<'m, M>) {
        assert!(std::ptr::eq(self.frames.machine, cpu.machine()), "the CPU is of another machine");
    }

    /// A section begins, in which the CPU takes pages out of tables and flushes them.
    #[inline]
    fn begin<'a>(&'a self, cpu: &'a Cpu<'m, M>) -> Section<'a, 'm, M, S> {
        // SAFETY: the CPU has the place for itself, and is in no section: each of our functions that
        // begins one ends it, and calls no other that does. Places stay as long as the form.
        unsafe { self.form.begin(&self.places[cpu.number()], &OnCpu::of(cpu)) };
        Section { memory: self, cpu }
    }

    /// Waits until all CPUs have forgotten where a frame was mapped, by those who have taken it out of
    /// tables. The caller is in no section and has no lock of a table.
    fn wait(&self, cpu: &Cpu<'m, M>, frame: Frame) {
        // Who has marked the stamp has had the lock before.
        drop(self.frames.lock_bucket(frame));
        let places = self.places.iter().map(|place| &**place);
        self.form.wait(places, &self.frames.bucket(frame).stamp, &OnCpu::of(cpu));
    }

    /// Frees a frame that no table has any more, and that our CPUs have forgotten.
    #[inline]
    fn frame_recycled(&self, cpu: &Cpu<'m, M>, frame: Frame) {
        if self.frames.record(frame).was_shared.load(Relaxed) {
            self.wait(cpu, frame);
        }
        // SAFETY: no table has it, and all CPUs have forgotten it.
        unsafe { self.frames.pools.free(cpu, frame) };
    }

    /// Frees a frame that no table has any more, when nobody can be asked to wait.
    pub(super) fn put_off(&self, frame: Frame) {
        if self.frames.record(frame).was_shared.load(Relaxed) {
            let mut limbo = self.limbo.lock_briefly();
            self.frames.record(frame).next.store(*limbo, Relaxed);
            *limbo = frame.0;
        } else {
            // SAFETY: no table has it, and one that had is a space's that is gone.
            unsafe { self.frames.machine.free(&[frame]) };
        }
    }

    /// Frees what was [put off](Memory::put_off).
    pub(super) fn catch_up(&self, cpu: &Cpu<'m, M>) {
        let mut next = std::mem::replace(&mut *self.limbo.lock_briefly(), END);
        while next != END {
            let frame = Frame(next);
            next = self.frames.record(frame).next.load(Relaxed);
            self.frame_recycled(cpu, frame);
        }
    }

    /// Gets a frame of zeros where there seemed to be none.
    #[cold]
    fn find_page(&self, cpu: &Cpu<'m, M>) -> Result<(), OutOfMemory> {
        self.frames.pools.refill_page(cpu).or_else(|_| {
            self.catch_up(cpu);
            self.frames.pools.refill_page(cpu)
        })
    }

    /// Makes a page present that may be accessed this way, as a map's entry says, which cannot change
    /// meanwhile: `pmap_enter`. Returns how many pages more are present.
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
            // Where there is none, that shows when it is needed.
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
                // Release: who finds the frame finds zeros.
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
                    // CPUs forget the old page before any of them gets the new one.
                    entry.store(ABSENT, Relaxed);
                    pmap.shoot_down(cpu, Pages::new(page, 1));
                    let address = |frame| self.frames.machine.address(frame);
                    // SAFETY: the new frame is ours. The old one counts our entry, which is gone: nobody
                    // frees it or writes there.
                    unsafe { address(frame).copy_to_nonoverlapping(address(new), PAGE) };
                    let of = Mapping { pmap, space: whole.space(), page };
                    let free = |frame| self.free(cpu, frame);
                    let is_last = S::Reverse::remove(&self.frames, of, frame, |_| (), free);
                    let of = Mapping { pmap, space: whole.space(), page };
                    S::Reverse::insert(&self.frames, of, new, backing);
                    entry.store(M::Format::page(new, protection), Release);
                    drop((guard, whole));
                    if is_last {
                        self.frame_recycled(cpu, frame);
                    }
                    return Ok(0);
                } else if settled != Some(frame) {
                    // We have it alone, and those who had it may read what we wrote. With locks we
                    // cannot wait for them: they may wait for our locks.
                    drop((guard, whole));
                    self.wait(cpu, frame);
                    settled = Some(frame);
                    continue;
                } else {
                    record.was_shared.store(false, Relaxed);
                }
            }
            entry.store(M::Format::page_or_prot_none(frame, allowed), Release);
            return Ok(0);
        }
    }

    fn free(&self, cpu: &Cpu<'m, M>, frame: Frame) {
        // SAFETY: the reverse map needs it no more; no table has it.
        unsafe { self.frames.pools.free(cpu, frame) };
    }

    /// Takes these pages out of the tables and frees their frames: `pmap_remove`. Returns how many were
    /// present.
    pub(super) fn remove(&self, cpu: &Cpu<'m, M>, pmap: &Pmap<S::Reverse>, pages: Pages) -> u64 {
        let (mut first, mut count) = (END, 0);
        let mut gone = Pages { start: Page(u64::MAX), end: Page(0) };
        // Before the first table is locked: who finds there what we have left sees it, or that it is over.
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
        // Others that take pages of ours out at the same time may not have flushed them yet, and who has
        // called us wants them flushed: Linux' `mm_tlb_flush_nested`.
        if pmap.flushing.load(Acquire) > 1 {
            gone = pages;
        }
        if !gone.is_empty() {
            pmap.shoot_down(cpu, gone);
        }
        drop(whole);
        drop(section);
        pmap.flushing.fetch_sub(1, Release);
        while first != END {
            let frame = Frame(first);
            first = self.frames.record(frame).next.load(Relaxed);
            self.frame_recycled(cpu, frame);
        }
        count
    }

    /// Takes away from what is present of these pages what may not be done any more: `pmap_protect`. No
    /// section is needed, as no frame loses a mapping.
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

    /// Has a copy of a space, which nobody else knows, have the frames of this one, whose map is held
    /// for writing; nobody may write to them from now on: `pmap_copy`, `copy_page_range`. Returns how
    /// many are present. After an error the copy has some of them.
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
                    entry.store(new, Release);
                    changed =
                        Pages { start: changed.start.min(page), end: changed.end.max(page + 1) };
                }
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
        // No space is left, and nobody invalidates.
        let mut next = *self.limbo.get_mut();
        while next != END {
            // SAFETY: no table has it, and no CPU knows it.
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

/// From the first page that is taken out of tables to the flush of all.
struct Section<'a, 'm, M: Machine, S: Strategies> {
    memory: &'a Memory<'m, M, S>,
    cpu: &'a Cpu<'m, M>,
}

impl<M: Machine, S: Strategies> Section<'_, '_, M, S> {
    #[inline]
    fn mark(&self, stamp: &Stamp) {
        // SAFETY: as in `Memory::begin`, which has begun the section.
        unsafe { self.memory.form.mark(&self.memory.places[self.cpu.number()], stamp) };
    }
}

impl<M: Machine, S: Strategies> Drop for Section<'_, '_, M, S> {
    #[inline]
    fn drop(&mut self) {
        let place = &self.memory.places[self.cpu.number()];
        // SAFETY: as in `Memory::begin`, which has begun it.
        unsafe { self.memory.form.finish(place, &OnCpu::of(self.cpu)) };
    }
}
