//! The page tables of a space. Like FreeBSD's `pmap`, they contain only pages that the map permits and that
//! were accessed.

use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU32, AtomicU64};

use knee_vm::{Cpu, CpuSet, Entry, Flush, Format, Frame, Machine, OutOfMemory, Page, Pages};

use super::frames::{BITS, ENTRIES, Frames};
use super::lock::{Held, Lock};
use super::on_cpu::OnCpu;
use super::reverse_state::ReverseState;

/// The tables of a space. They exist until the space is dropped.
#[derive(Debug)]
pub struct Pmap<R: ReverseState> {
    pub(super) number: u64,
    /// The CPUs whose TLBs may contain pages of the space.
    pub(super) active: CpuSet,
    pub(super) root: Frame,
    /// The lock that guards all tables, for reverse maps with a single lock.
    pub(super) lock: Lock<R::OfSpace>,
    /// The number of operations that are removing pages from tables and have not flushed them yet.
    pub(super) flushing: AtomicU32,
}

/// The smallest space number of these designs. Spaces of knee-vm's own design have smaller numbers.
const FIRST_NUMBER: u64 = 1 << 63;

/// Access to the state that a reverse map keeps for a space. If one lock guards all tables, this value is
/// also the guard of that lock.
pub(super) struct Whole<'a, R: ReverseState> {
    held: Option<Held<'a, R::OfSpace>>,
    none: R::OfSpace,
}

impl<R: ReverseState> Whole<'_, R> {
    #[inline]
    pub(super) fn space(&mut self) -> &mut R::OfSpace {
        self.held.as_deref_mut().unwrap_or(&mut self.none)
    }
}

impl<R: ReverseState> Pmap<R> {
    pub(super) fn new<'m, M: Machine>(
        frames: &Frames<'m, M, R>,
        cpu: &Cpu<'m, M>,
    ) -> Result<Arc<Pmap<R>>, OutOfMemory> {
        static NUMBER: AtomicU64 = AtomicU64::new(FIRST_NUMBER);
        let active = CpuSet::new(cpu.machine().cpus())?;
        let root = frames.pools.zeroed(cpu)?;
        cpu.machine().begin_root(root);
        let (lock, flushing) = (Lock::default(), AtomicU32::new(0));
        let number = NUMBER.fetch_add(1, Relaxed);
        Ok(Arc::new(Pmap { number, active, root, lock, flushing }))
    }

    /// Takes the lock that all tables share, if they share one.
    #[inline]
    pub(super) fn lock_whole<M: Machine>(&self, cpu: &Cpu<'_, M>) -> Whole<'_, R> {
        let held = R::ONE_LOCK.then(|| self.lock.lock(&OnCpu::of(cpu)));
        Whole { held, none: R::OfSpace::default() }
    }

    /// Makes all CPUs that use the space flush these pages.
    pub(super) fn shoot_down<M: Machine>(&self, cpu: &Cpu<'_, M>, pages: Pages) {
        // SAFETY: this thread owns the `Cpu`, so the caller is the CPU with this number. While other CPUs
        // wait for this CPU's locks, they handle requests; see `OnCpu`.
        unsafe {
            cpu.machine().shoot_down(cpu.number(), &self.active, self.number, Flush::Range(pages));
        }
    }
}

/// Returns the index of a page in a table of this level.
#[inline]
pub(super) fn slot(page: Page, level: u8) -> usize {
    (page.0 >> (BITS * u32::from(level))) as usize % ENTRIES
}

impl<'m, M: Machine, R: ReverseState> Frames<'m, M, R> {
    /// Takes the lock of a table, if tables have locks.
    #[inline]
    pub(super) fn lock_table(&self, cpu: &Cpu<'m, M>, table: Frame) -> Option<Held<'_, ()>> {
        (!R::ONE_LOCK).then(|| self.record(table).lock.lock(&OnCpu::of(cpu)))
    }

    /// Returns the entry of a page, if its table exists.
    pub(super) fn find(&self, pmap: &Pmap<R>, page: Page) -> Option<&AtomicU64> {
        let mut table = pmap.root;
        for level in (1..M::Format::LEVELS).rev() {
            // Acquire: pairs with `add_table`, so that this thread finds the table zeroed.
            match M::Format::read(self.table(table)[slot(page, level)].load(Acquire), level) {
                Entry::Table(next) => table = next,
                _ => return None,
            }
        }
        Some(&self.table(table)[slot(page, 0)])
    }

    /// Returns the table that contains a page's entry, after adding the missing tables on the path to it.
    #[inline]
    pub(super) fn leaf(
        &self,
        cpu: &Cpu<'m, M>,
        pmap: &Pmap<R>,
        page: Page,
    ) -> Result<Frame, OutOfMemory> {
        let mut table = pmap.root;
        for level in (1..M::Format::LEVELS).rev() {
            let entry = &self.table(table)[slot(page, level)];
            // Acquire: as in `find`.
            table = match M::Format::read(entry.load(Acquire), level) {
                Entry::Table(next) => next,
                _ => self.add_table(cpu, pmap, table, entry)?,
            };
        }
        Ok(table)
    }

    #[cold]
    fn add_table(
        &self,
        cpu: &Cpu<'m, M>,
        pmap: &Pmap<R>,
        table: Frame,
        entry: &AtomicU64,
    ) -> Result<Frame, OutOfMemory> {
        let new = self.pools.zeroed(cpu)?;
        let _whole = pmap.lock_whole(cpu);
        let _table = self.lock_table(cpu, table);
        // Level 1 stands for any level above 0: an entry that points to a table has the same format at each
        // level.
        if let Entry::Table(other) = M::Format::read(entry.load(Relaxed), 1) {
            // SAFETY: this thread allocated the frame, and no table contains it.
            unsafe { self.pools.free(cpu, new) };
            return Ok(other);
        }
        // Release: a CPU that finds the table sees its zeros.
        entry.store(M::Format::table(new), Release);
        Ok(new)
    }

    /// Passes to `with` each lowest-level table that covers some of these pages, together with the covered
    /// pages.
    pub(super) fn for_leaves(
        &self,
        pmap: &Pmap<R>,
        pages: Pages,
        with: &mut impl FnMut(Frame, Pages),
    ) {
        self.for_leaves_below(pmap.root, M::Format::LEVELS - 1, pages, with);
    }

    fn for_leaves_below(
        &self,
        table: Frame,
        level: u8,
        pages: Pages,
        with: &mut impl FnMut(Frame, Pages),
    ) {
        if level == 0 {
            return with(table, pages);
        }
        let reach = 1 << (BITS * u32::from(level));
        let mut next = pages.start;
        while next < pages.end {
            let after = Page((next.0 / reach + 1) * reach);
            // Acquire: as in `find`.
            let entry = self.table(table)[slot(next, level)].load(Acquire);
            if let Entry::Table(below) = M::Format::read(entry, level) {
                let within = Pages { start: next, end: after.min(pages.end) };
                self.for_leaves_below(below, level - 1, within, with);
            }
            next = after;
        }
    }

    /// Passes the frame of each table to `with`, children before parents.
    pub(super) fn for_tables(&self, pmap: &Pmap<R>, with: &mut impl FnMut(Frame)) {
        // The root's other entries belong to the kernel.
        let slots = ENTRIES >> u32::from(M::Format::HAS_KERNEL);
        self.for_tables_below(pmap.root, M::Format::LEVELS - 1, slots, with);
    }

    fn for_tables_below(
        &self,
        table: Frame,
        level: u8,
        slots: usize,
        with: &mut impl FnMut(Frame),
    ) {
        if level > 0 {
            for entry in &self.table(table)[..slots] {
                // Acquire: as in `find`.
                if let Entry::Table(below) = M::Format::read(entry.load(Acquire), level) {
                    self.for_tables_below(below, level - 1, ENTRIES, with);
                }
            }
        }
        with(table);
    }
}
