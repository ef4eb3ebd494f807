//! A CPU of the hosted machine: its MMU, and its handling of shootdowns.

use std::fmt;
use std::ops::Deref;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed};

use knee_sync::shim::order;

use super::context::MmuContext;
use super::mailbox::Mailbox;
use super::tlb::{CachedTable, Translation};
use super::{Architecture, Hosted};
use crate::cpu::Cpu;
use crate::error::Fault;
use crate::machine::Flush;
use crate::machine::format::{Entry, X86_64};
use crate::machine::table_at;
use crate::page::{BITS, ENTRIES, Frame, Page, Pages, Protection, VirtAddr};
use crate::tree::node::entry_span;

/// A CPU panics after a cached entry has caused this many consecutive faults, all of which the handler
/// reported as resolved. After a handler has flushed the entry, the access faults again only if another CPU
/// unmaps the page in between.
const MOST_CACHED_FAULTS: u32 = 64;

/// Why a CPU raised a page fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Source {
    /// The current tables deny the access.
    Tables,
    /// A cached entry denies the access.
    Cache,
}

/// A CPU of a [`Hosted`] machine, run by the thread that owns the `Processor`.
pub struct Processor<'m, A: Architecture = X86_64> {
    machine: &'m Hosted<A>,
    cpu: Cpu<'m, Hosted<A>>,
}

impl<A: Architecture> Hosted<A> {
    /// Brings CPU `number` online on the calling thread. The CPU acknowledges shootdowns when it accesses
    /// memory, when an operation waits for other CPUs, and in [`handle_ipis`](Processor::handle_ipis). If the
    /// thread does none of these for a long time, it must take the CPU [offline](Processor::offline).
    ///
    /// # Panics
    /// If the machine has no such CPU, or the CPU is already online.
    pub fn cpu(&self, number: usize) -> Processor<'_, A> {
        Processor::new(self, number)
    }
}

impl<'m, A: Architecture> Processor<'m, A> {
    fn new(machine: &'m Hosted<A>, number: usize) -> Processor<'m, A> {
        let mailbox = machine.mailboxes.get(number);
        let mailbox = mailbox.unwrap_or_else(|| panic!("the machine has no CPU {number}"));
        assert!(mailbox.come(), "CPU {number} is already online");
        machine.ticks.cpu_online(number);
        super::frames::set_cpu(number);
        // SAFETY: the CPU was offline, so no other `Cpu` has this number. A `Cpu` stays on its thread.
        let cpu = unsafe { Cpu::new(machine, number) };
        Processor { machine, cpu }
    }

    fn mailbox(&self) -> &'m Mailbox {
        &self.machine.mailboxes[self.cpu.number()]
    }

    /// Loads the word at `address` in `space`. On [`Fault::Retry`] it retries the access, as the CPU of a
    /// real machine would.
    ///
    /// # Errors
    /// See [`Fault`].
    ///
    /// # Panics
    /// If the address is not a multiple of eight.
    #[inline]
    pub fn load(
        &self,
        space: &(impl MmuContext<'m, Hosted<A>> + ?Sized),
        address: VirtAddr,
    ) -> Result<u64, Fault> {
        self.access(space, address, Protection::READ, |word| word.load(Relaxed))
    }

    /// Stores `value` at `address` in `space`, and retries like [`load`](Processor::load).
    ///
    /// # Errors
    /// See [`Fault`].
    ///
    /// # Panics
    /// If the address is not a multiple of eight.
    #[inline]
    pub fn store(
        &self,
        space: &(impl MmuContext<'m, Hosted<A>> + ?Sized),
        address: VirtAddr,
        value: u64,
    ) -> Result<(), Fault> {
        self.access(space, address, Protection::WRITE, |word| word.store(value, Relaxed))
    }

    #[inline]
    fn access<R>(
        &self,
        space: &(impl MmuContext<'m, Hosted<A>> + ?Sized),
        address: VirtAddr,
        access: Protection,
        with: impl FnOnce(&AtomicU64) -> R,
    ) -> Result<R, Fault> {
        assert!(address.0.is_multiple_of(8), "the address is not a multiple of eight");
        let page = address.page();
        // Number of consecutive faults caused by cached entries.
        let mut cached_faults = 0;
        loop {
            self.handle_ipis();
            // SAFETY: this is the CPU's thread, because `Cpu` is not `Send`.
            let cached = unsafe { self.mailbox().tlb() }.find(space.number(), page);
            let translation = match cached {
                Some(cached) if cached.protection.contains(access) => cached,
                _ => match self.miss(space, page, access, cached.is_some(), &mut cached_faults)? {
                    Some(translation) => translation,
                    None => continue,
                },
            };
            let result = with(self.machine.word(translation.frame, address.offset() / 8));
            // The frame can be freed only after this CPU acknowledges the shootdown, and the CPU
            // acknowledges nothing between the access and this check.
            let is_stale = self.machine.generation(translation.frame) != translation.generation;
            assert!(
                !is_stale,
                "CPU {} accesses page {page:#x} through a stale TLB entry",
                self.cpu.number()
            );
            return Ok(result);
        }
    }

    /// Handles a TLB miss: translates the page, or raises a page fault. Returns `None` if the access must
    /// be retried. `is_cached` tells whether the TLB has an entry that denies the access.
    #[cold]
    fn miss(
        &self,
        space: &(impl MmuContext<'m, Hosted<A>> + ?Sized),
        page: Page,
        access: Protection,
        is_cached: bool,
        cached_faults: &mut u32,
    ) -> Result<Option<Translation>, Fault> {
        let source = if is_cached && !A::FAULT_DROPS_ENTRY {
            Source::Cache
        } else {
            match self.walk(space, page, access) {
                Ok(translation) => return Ok(Some(translation)),
                Err(source) => source,
            }
        };
        if is_cached && A::FAULT_DROPS_ENTRY {
            // SAFETY: this is the CPU's thread.
            unsafe { self.mailbox().flush(space.number(), Flush::Range(Pages::new(page, 1))) };
        }
        match space.fault(&self.cpu, page, access) {
            Err(Fault::Retry) => {
                *cached_faults = 0;
                std::thread::yield_now();
                return Ok(None);
            }
            result => result?,
        }
        *cached_faults = if source == Source::Cache { *cached_faults + 1 } else { 0 };
        assert!(
            *cached_faults < MOST_CACHED_FAULTS,
            "CPU {} faults on page {page:#x} forever: the handler does not flush its stale entry",
            self.cpu.number()
        );
        Ok(None)
    }

    /// Walks the tables of the space, and caches what the architecture may cache.
    #[cold]
    fn walk(
        &self,
        space: &(impl MmuContext<'m, Hosted<A>> + ?Sized),
        page: Page,
        access: Protection,
    ) -> Result<Translation, Source> {
        space.activate(&self.cpu);
        if !space.pages().contains(page) {
            return Err(Source::Tables);
        }
        // SAFETY: this is the CPU's thread.
        let tlb = unsafe { self.mailbox().tlb() };
        // Tables reached from the root are not freed during the walk: freeing a table needs an
        // acknowledgement from this CPU.
        let generation = |table| if A::CACHES_TABLES { self.machine.generation(table) } else { 0 };
        let find_table = || tlb.find_table(space.number(), page, A::LEVELS);
        let cached = A::CACHES_TABLES.then(find_table).flatten();
        let root = (space.table(), generation(space.table()));
        let (levels, mut table) = match cached {
            Some(CachedTable { level, table: Some(table), .. }) => (level, table),
            Some(_) => return Err(Source::Cache),
            None => (A::LEVELS, root),
        };
        for level in (0..levels).rev() {
            // SAFETY: a table is freed only after all CPUs have acknowledged its flush, and this CPU
            // acknowledges nothing during the walk. Even if a cached table is stale, its frame is part of the
            // machine's memory, which stays valid.
            let entries = unsafe { table_at(self.machine, table.0).as_ref() };
            let index = page.0 >> (BITS * u32::from(level));
            // Acquire: the entry points to a frame whose initialization happens before this load.
            let entry = entries[index as usize % ENTRIES].load(order!(Acquire, "hosted_walk"));
            let is_stale = generation(table.0) != table.1;
            assert!(
                !is_stale,
                "CPU {} walks a freed table of page {page:#x}: it was not flushed",
                self.cpu.number()
            );
            match A::read(entry, level) {
                Entry::Table(next) => {
                    table = (next, generation(next));
                    if A::CACHES_TABLES {
                        let (space, table) = (space.number(), Some(table));
                        tlb.insert_table(CachedTable { space, level, index, table });
                    }
                }
                Entry::Page { accessed: false, .. } => {
                    // An entry without the accessed bit is not cached: either the hardware sets the bit
                    // first, or the access raises a page fault.
                    let Some(bit) = A::SETS_ACCESSED else { return Err(Source::Tables) };
                    let slot = &entries[index as usize % ENTRIES];
                    // If the entry has changed, the next walk finds the new entry.
                    let _ = slot.compare_exchange(entry, entry | bit, Relaxed, Relaxed);
                    return self.walk(space, page, access);
                }
                Entry::Page { frame, protection, .. } | Entry::Device { frame, protection } => {
                    // A TLB may cache the pieces of a large page one by one.
                    let frame = Frame(frame.0 + page.0 % entry_span(level));
                    // Another CPU may have cleared the entry since the load. The frame is not free yet: the
                    // other CPU frees the frame only after this CPU has acknowledged the flush or has had a
                    // tick.
                    let translation = Translation {
                        space: space.number(),
                        page,
                        frame,
                        protection,
                        is_global: A::is_global(entry),
                        generation: self.machine.generation(frame),
                        level,
                    };
                    let is_allowed = protection.contains(access);
                    if is_allowed || !A::FAULT_DROPS_ENTRY {
                        tlb.insert(translation);
                    }
                    return if is_allowed { Ok(translation) } else { Err(Source::Tables) };
                }
                _ => {
                    if A::CACHES_ABSENT && level > 0 {
                        let (space, table) = (space.number(), None);
                        tlb.insert_table(CachedTable { space, level, index, table });
                    } else if A::CACHES_ABSENT {
                        tlb.insert(Translation::absent(space.number(), page));
                    }
                    break;
                }
            }
        }
        Err(Source::Tables)
    }

    /// Leaves `space`: flushes the space's translations, and deactivates the space on this CPU. Until this
    /// CPU accesses the space again, shootdowns of the space do not wait for the CPU.
    pub fn leave(&self, space: &(impl MmuContext<'m, Hosted<A>> + ?Sized)) {
        // SAFETY: this is the CPU's thread, and its TLB has no entries of the space when `deactivate` runs.
        unsafe { self.mailbox().leave(space.number(), || space.deactivate(&self.cpu)) };
    }

    /// Handles pending shootdowns from other CPUs. A loop that accesses no memory must call this, because
    /// other CPUs may be waiting.
    #[inline]
    pub fn handle_ipis(&self) {
        // SAFETY: this is the CPU's thread.
        unsafe { self.mailbox().handle_ipis() };
    }

    /// Simulates a timer interrupt, which flushes the CPU's whole TLB. [Lazy](crate::Space::set_lazy)
    /// spaces wait for such ticks.
    pub fn tick(&self) {
        self.handle_ipis();
        // SAFETY: this is the CPU's thread.
        self.machine.ticks.tick(self.cpu.number(), || unsafe { self.mailbox().flush_all() });
    }

    fn go(&self) {
        // SAFETY: this is the CPU's thread.
        unsafe { self.mailbox().go() };
        self.machine.ticks.cpu_offline(self.cpu.number());
    }

    /// Takes the CPU offline while `with` runs: shootdowns do not wait for the CPU, and its TLB is empty
    /// afterwards. Use this to wait for other threads: `cpu.offline(|| thread.join())`.
    pub fn offline<R>(&mut self, with: impl FnOnce() -> R) -> R {
        struct Back<'a, 'm, A: Architecture>(&'a Processor<'m, A>);
        impl<A: Architecture> Drop for Back<'_, '_, A> {
            fn drop(&mut self) {
                self.0.mailbox().come();
                self.0.machine.ticks.cpu_online(self.0.cpu.number());
            }
        }
        self.go();
        let _back = Back(self);
        with()
    }
}

/// Dereferences to the [`Cpu`] that operations on address spaces take.
impl<'m, A: Architecture> Deref for Processor<'m, A> {
    type Target = Cpu<'m, Hosted<A>>;

    #[inline]
    fn deref(&self) -> &Cpu<'m, Hosted<A>> {
        &self.cpu
    }
}

impl<A: Architecture> Drop for Processor<'_, A> {
    fn drop(&mut self) {
        self.go();
    }
}

impl<A: Architecture> fmt::Debug for Processor<'_, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Processor").field("number", &self.cpu.number()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::sync::atomic::AtomicBool;
    use std::thread;

    use crate::page::Page;
    use crate::space::Space;

    const WRITE: Protection = Protection::READ_WRITE;

    /// Two CPUs use a space in which pages 16 and 17 are mapped, and page 16 is present. After `first` has
    /// run on one CPU, the other CPU loads page 17. Only the page-table entry synchronizes the two CPUs.
    fn check<'m>(
        machine: &'m Hosted,
        before: impl FnOnce(&Processor<'m>, &Space<'m, Hosted>),
        first: impl FnOnce(&Processor<'m>, &Space<'m, Hosted>),
    ) -> u64 {
        let mut one = machine.cpu(0);
        let space = Space::new(&one).unwrap();
        space.map(&one, Pages::new(Page(16), 2), WRITE).unwrap();
        one.load(&space, Page(16).address()).unwrap();
        before(&one, &space);
        let [is_active, is_over] = [const { AtomicBool::new(false) }; 2];
        thread::scope(|scope| {
            let other = scope.spawn(|| {
                let other = machine.cpu(1);
                // This load activates the space before `first` runs: a later activation would execute a
                // fence, and so synchronize the CPUs.
                other.load(&space, Page(16).address()).unwrap();
                is_active.store(true, Relaxed);
                while !is_over.load(Relaxed) {
                    other.handle_ipis();
                    thread::yield_now();
                }
                other.load(&space, Page(17).address()).unwrap()
            });
            while !is_active.load(Relaxed) {
                thread::yield_now();
            }
            first(&one, &space);
            is_over.store(true, Relaxed);
            one.offline(|| other.join().unwrap())
        })
    }

    #[test]
    fn a_cpu_that_finds_a_new_page_sees_it_zeroed() {
        let machine = Hosted::new(64, 2);
        let found = check(
            &machine,
            |_, _| (),
            |one, space| assert_eq!(one.load(space, Page(17).address()), Ok(0)),
        );
        assert_eq!(found, 0);
    }

    #[test]
    fn a_cpu_that_finds_a_copied_page_sees_its_content() {
        let machine = Hosted::new(64, 2);
        let mut copy = None;
        let found = check(
            &machine,
            |one, space| {
                one.store(space, Page(17).address(), 42).unwrap();
                copy = Some(space.fork(one).unwrap());
            },
            |one, space| one.store(space, Page(17).address() + 8, 43).unwrap(),
        );
        assert_eq!(found, 42);
    }
}
