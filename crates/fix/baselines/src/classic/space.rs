//! An address space of one of the older designs: a map above tables.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use knee_vm::hosted::MmuContext;
use knee_vm::{
    Cpu, Entry as TableEntry, Fault, FaultFlush, Flush, Format, Frame, Machine, MapError,
    OutOfMemory, Page, Pages, Protection,
};

use super::accounting::Accounting;
use super::entries::{self, Entries, Entry, View};
use super::map::Map;
use super::memory::Memory;
use super::on_cpu::OnCpu;
use super::pmap::{Pmap, slot};
use super::reverse::{Backing, Mapping, Reverse};
use super::strategies::{MapOf, Strategies};
use crate::address_space::AddressSpace;

type Resident<S> = <<S as Strategies>::Accounting as Accounting>::Resident;

/// An address space as in the BSDs and Linux: page tables, and a map whose entries are ranges of pages.
///
/// [`AddressSpace`] describes its operations. If a map entry cannot be allocated, the program aborts. If a
/// frame cannot be allocated, the operation fails and changes nothing.
#[derive(Debug)]
pub struct Space<'m, M: Machine, S: Strategies> {
    pub(super) memory: Arc<Memory<'m, M, S>>,
    pub(super) map: MapOf<S>,
    pub(super) pmap: Arc<Pmap<S::Reverse>>,
    resident: Resident<S>,
}

/// `map_anywhere` uses no page below this one, so that an access through a null pointer faults.
const LOWEST: Page = Page(16);

impl<'m, M: Machine, S: Strategies> Space<'m, M, S> {
    /// Creates an empty space.
    ///
    /// # Errors
    /// If there is not enough memory for the space.
    ///
    /// # Panics
    /// If the CPU and the memory belong to different machines.
    pub fn new(memory: &Arc<Memory<'m, M, S>>, cpu: &Cpu<'m, M>) -> Result<Self, OutOfMemory> {
        memory.check(cpu);
        let resident = memory.accounting.resident(cpu.machine().cpus())?;
        let (map, pmap) = (MapOf::<S>::new(), Pmap::new(&memory.frames, cpu)?);
        Ok(Space { memory: Arc::clone(memory), map, pmap, resident })
    }

    /// Returns the state that this space shares with other spaces.
    pub fn memory(&self) -> &Arc<Memory<'m, M, S>> {
        &self.memory
    }

    /// Returns the present pages and their frames, by walking all tables. The result is exact only if there
    /// are no concurrent changes.
    pub fn present(&self) -> Vec<(Page, Frame)> {
        let mut all = Vec::new();
        self.memory.frames.for_leaves(&self.pmap, self.pages(), &mut |table, pages| {
            for page in pages.iter() {
                let entry = self.memory.frames.table(table)[slot(page, 0)].load(Relaxed);
                if let TableEntry::Page { frame, .. } | TableEntry::ProtNone(frame) =
                    M::Format::read(entry, 0)
                {
                    all.push((page, frame));
                }
            }
        });
        all
    }

    fn check(&self, cpu: &Cpu<'m, M>, pages: Pages) -> Result<(), MapError> {
        self.memory.check(cpu);
        if pages.is_empty() {
            return Err(MapError::Empty);
        }
        if self.pages().covers(pages) { Ok(()) } else { Err(MapError::OutOfRange) }
    }

    /// Maps pages that are already charged.
    fn map_charged(
        &self,
        entries: &mut impl Entries<S::Reverse>,
        pages: Pages,
        protection: Protection,
    ) -> Result<(), MapError> {
        let back = || S::Reverse::back(&self.pmap, pages);
        entries::map(entries, pages, readable(protection), back)
    }

    fn charge(&self, cpu: &Cpu<'m, M>, pages: u64) -> Result<(), MapError> {
        self.memory.accounting.charge(cpu.number(), pages, &OnCpu::of(cpu))
    }

    fn give_back(&self, cpu: &Cpu<'m, M>, pages: u64) {
        self.memory.accounting.give_back(Some(cpu.number()), pages, &OnCpu::of(cpu));
    }
}

impl<'m, M: Machine, S: Strategies> MmuContext<'m, M> for Space<'m, M, S> {
    #[inline]
    fn number(&self) -> u64 {
        self.pmap.number
    }

    fn table(&self) -> Frame {
        self.pmap.root
    }

    fn pages(&self) -> Pages {
        M::Format::pages()
    }

    fn activate(&self, cpu: &Cpu<'m, M>) {
        self.memory.check(cpu);
        if !self.pmap.active.contains(cpu.number()) {
            self.pmap.active.add(cpu.number());
        }
    }

    unsafe fn deactivate(&self, cpu: &Cpu<'m, M>) {
        self.memory.check(cpu);
        self.pmap.active.remove(cpu.number());
    }

    #[inline]
    fn fault(&self, cpu: &Cpu<'m, M>, page: Page, access: Protection) -> Result<(), Fault> {
        self.memory.check(cpu);
        let entered = self.map.with_entry(cpu, page, |protection, backing| {
            if !protection.contains(access) {
                return Err(Fault::AccessDenied);
            }
            self.memory.enter(cpu, &self.pmap, page, (protection, access), backing)
        });
        let came = entered.ok_or(Fault::Unmapped)??;
        S::Accounting::add(&self.resident, cpu.number(), came);
        if M::FAULT_FLUSH != FaultFlush::Never {
            // The CPU may have cached the page's old entry, or the fact that the page had no table.
            let pages = Flush::Tables(Pages::new(page, 1));
            // SAFETY: this thread owns the `Cpu`, so the caller is the CPU with this number.
            unsafe { cpu.machine().flush_local(cpu.number(), self.pmap.number, pages) };
        }
        Ok(())
    }
}

impl<'m, M: Machine, S: Strategies> AddressSpace<'m, M> for Space<'m, M, S> {
    fn resident(&self) -> u64 {
        S::Accounting::count(&self.resident)
    }

    fn map(&self, cpu: &Cpu<'m, M>, pages: Pages, protection: Protection) -> Result<(), MapError> {
        self.check(cpu, pages)?;
        self.charge(cpu, pages.count())?;
        let result = self.map_charged(&mut self.map.write(cpu), pages, protection);
        if result.is_err() {
            self.give_back(cpu, pages.count());
        }
        result
    }

    fn map_anywhere(
        &self,
        cpu: &Cpu<'m, M>,
        count: u64,
        protection: Protection,
    ) -> Result<Pages, MapError> {
        self.memory.check(cpu);
        let window = Pages { start: LOWEST, ..self.pages() };
        if count == 0 {
            return Err(MapError::Empty);
        }
        if count > window.count() {
            return Err(MapError::NoAddressSpace);
        }
        self.charge(cpu, count)?;
        let mut entries = self.map.write(cpu);
        let Some(start) = entries.gap(window, count) else {
            drop(entries);
            self.give_back(cpu, count);
            return Err(MapError::NoAddressSpace);
        };
        let pages = Pages::new(start, count);
        self.map_charged(&mut entries, pages, protection)?;
        Ok(pages)
    }

    fn unmap(&self, cpu: &Cpu<'m, M>, pages: Pages) -> Result<(), MapError> {
        self.check(cpu, pages)?;
        let mut entries = self.map.write(cpu);
        let mut ended = None;
        let mut more = Vec::new();
        let count = entries::unmap(&mut entries, pages, |backing| {
            // Usually there is only one backing, so `more` stays empty and allocates nothing.
            match &ended {
                None => ended = Some(backing),
                Some(_) => more.push(backing),
            }
        });
        if count > 0 {
            // Lets faults run during the flush, as Linux has done since 4.20.
            entries.downgrade(|| {
                let gone = self.memory.remove(cpu, &self.pmap, pages);
                S::Accounting::add(&self.resident, cpu.number(), gone.wrapping_neg());
                let guard = cpu.pin();
                ended.into_iter().chain(more).for_each(|backing| backing.end(&guard));
            });
            self.give_back(cpu, count);
        }
        Ok(())
    }

    fn protect(
        &self,
        cpu: &Cpu<'m, M>,
        pages: Pages,
        protection: Protection,
    ) -> Result<(), MapError> {
        self.check(cpu, pages)?;
        let protection = readable(protection);
        let mut entries = self.map.write(cpu);
        if !entries::protect(&mut entries, pages, protection) {
            return Err(MapError::Unmapped);
        }
        self.memory.restrict(cpu, &self.pmap, pages, protection);
        Ok(())
    }

    fn discard(&self, cpu: &Cpu<'m, M>, pages: Pages) -> Result<(), MapError> {
        self.check(cpu, pages)?;
        self.map.read(cpu, || {
            let gone = self.memory.remove(cpu, &self.pmap, pages);
            S::Accounting::add(&self.resident, cpu.number(), gone.wrapping_neg());
        });
        Ok(())
    }

    fn query(&self, cpu: &Cpu<'m, M>, page: Page) -> Option<Protection> {
        self.memory.check(cpu);
        self.map.with_entry(cpu, page, |protection, _| protection)
    }

    fn fork(&self, cpu: &Cpu<'m, M>) -> Result<Self, MapError> {
        self.memory.check(cpu);
        self.memory.catch_up(cpu);
        let copy = Space::new(&self.memory, cpu)?;
        let mut entries = self.map.write(cpu);
        entries.exclude_faults();
        let mut count = 0;
        for_each(&entries, |entry| count += entry.pages.count());
        self.charge(cpu, count)?;
        let mut copies = copy.map.write(cpu);
        for_each(&entries, |View { pages, protection, backing }| {
            copies.insert(Entry { pages, protection, backing: backing.fork(&copy.pmap) });
        });
        drop(copies);
        let present = self.memory.copy(cpu, &self.pmap, &copy.pmap, self.pages())?;
        S::Accounting::add(&copy.resident, cpu.number(), present);
        drop(entries);
        Ok(copy)
    }
}

/// Adds the right to read, if `protection` grants any right: on x86, each page that is writable or executable
/// is also readable.
fn readable(protection: Protection) -> Protection {
    let is_readable = protection != Protection::NONE && !protection.contains(Protection::GUARD);
    if is_readable { protection | Protection::READ } else { protection }
}

/// Passes each entry of a map to `with`.
pub(super) fn for_each<R: Reverse>(entries: &impl Entries<R>, mut with: impl FnMut(View<'_, R>)) {
    let mut next = Page(0);
    while let Some(entry) = entries.from(next) {
        next = entry.pages.end;
        with(entry);
    }
}

impl<M: Machine, S: Strategies> Drop for Space<'_, M, S> {
    fn drop(&mut self) {
        let Memory { frames, accounting, .. } = &*self.memory;
        let machine = frames.machine;
        // SAFETY: the frames belong to this space, and no thread uses the space any more.
        let free = |frame| unsafe { machine.free(&[frame]) };
        let mut whole = self.pmap.lock.lock_briefly();
        for (page, frame) in self.present() {
            let of = Mapping { pmap: &*self.pmap, space: &mut whole, page };
            if S::Reverse::remove(frames, of, frame, |_| (), free) {
                self.memory.put_off(frame);
            }
        }
        drop(whole);
        let handle = machine.epoch().register();
        let (guard, mut count) = (handle.pin(), 0);
        self.map.clear(|pages, backing| {
            count += pages;
            backing.end(&guard);
        });
        accounting.give_back(None, count, machine.epoch().platform());
        // The tables are freed last, because a walk of the reverse map reads the tables of each space that it
        // finds.
        frames.for_tables(&self.pmap, &mut |table| free(table));
    }
}
