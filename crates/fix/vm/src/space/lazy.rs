//! Lazy unmaps: other CPUs flush the pages at their next tick.

use alloc::collections::VecDeque;

use knee_sync::shim::is_mutant;

use super::Space;
use super::arena::Lingering;
use super::prune::PRUNED_AT_ONCE;
use crate::cpu::Cpu;
use crate::machine::ticks::Ticks;
use crate::machine::{LazyMachine, Machine};
use crate::page::Pages;

/// The maximum number of lazily unmapped ranges that may wait for ticks, per space and CPU. Each range has at
/// most 64 present pages, so the ranges of one CPU together hold at most 8 MiB of frames. When the limit is
/// reached, the next unmap interrupts all CPUs once for all of these ranges.
const MOST_RANGES: usize = 32;

impl<'m, M: LazyMachine> Space<'m, M> {
    /// Turns lazy unmaps on or off. If they are on, an [unmap](Space::unmap) of a few anonymous pages sends
    /// no IPIs (LATR, ASPLOS 2018). Other CPUs may still access the pages, with the old permissions, until
    /// their next [tick](crate::Ticks::tick). When a CPU has 32 unmapped ranges waiting for ticks, its next
    /// unmap interrupts all CPUs once. Forks of the space inherit the setting.
    ///
    /// This weakens only the guarantee of `unmap`: for some time after the unmap, accesses by other CPUs may
    /// still succeed, and their writes are lost. The unmapping CPU flushes its own TLB at once. Until all
    /// CPUs have flushed, the frames are not reused, and count as [resident](Space::resident). Until then, an
    /// operation that maps one of the unmapped pages again, or changes it in any other way, first interrupts
    /// all CPUs. So no CPU finds the old content in a page that is mapped again.
    ///
    /// All other operations stay synchronous: discarding, protecting and moving pages, forks, copy-on-write
    /// breaks, and taking pages out of objects. With a delayed flush, CPUs would keep permissions that were
    /// revoked, or would not see each other's writes. Unmaps of object pages, of pages shared with a fork, of
    /// more than 64 present pages at once, and of a gibibyte or more are synchronous as well.
    ///
    /// ```
    /// use knee_vm::hosted::Hosted;
    /// use knee_vm::{Page, Pages, Protection, Space};
    ///
    /// let machine = Hosted::new(1024, 2);
    /// let (cpu, other) = (machine.cpu(0), machine.cpu(1));
    /// let space = Space::new(&cpu)?;
    /// space.set_lazy(true);
    /// let (pages, address) = (Pages::new(Page(16), 4), Page(16).address());
    /// space.map(&cpu, pages, Protection::READ_WRITE)?;
    /// other.store(&space, address, 42).unwrap();
    /// space.unmap(&cpu, pages)?; // Does not wait for the other CPU.
    /// assert!(cpu.load(&space, address).is_err());
    /// assert_eq!(other.load(&space, address), Ok(42));
    /// other.tick();
    /// assert!(other.load(&space, address).is_err());
    /// # Ok::<(), knee_vm::MapError>(())
    /// ```
    pub fn set_lazy(&self, is_lazy: bool) {
        // SAFETY: these are the machine's ticks.
        unsafe { self.tree().set_ticks(is_lazy.then(|| self.machine.ticks())) };
    }

    /// Frees the frames of pages that were unmapped [lazily](Space::set_lazy). Call this function when memory
    /// is scarce. The call interrupts the CPUs of the space, unless all of them have ticked since the pages
    /// were unmapped. Without this call, the frames are freed later: after all CPUs have ticked, the CPU that
    /// unmapped the pages frees the frames at its next unmap in this space.
    pub fn settle(&self, cpu: &Cpu<'m, M>) {
        self.check_cpu(cpu);
        self.settle_in(cpu, self.pages());
        while let Some(one) = self.with_lingering(cpu, |all| all.pop_front()) {
            self.give_range(cpu, one.pages, one.mapped);
        }
    }
}

impl<'m, M: Machine> Space<'m, M> {
    fn settle_in(&self, cpu: &Cpu<'m, M>, pages: Pages) {
        let done = self.tree().locked(cpu, pages, |_, _| Ok(()));
        debug_assert!(done.is_ok(), "the step needs no memory");
    }

    fn with_lingering<R>(
        &self,
        cpu: &Cpu<'m, M>,
        with: impl FnOnce(&mut VecDeque<Lingering>) -> R,
    ) -> R {
        // SAFETY: the callers have checked that the CPU belongs to the space's machine.
        unsafe { self.arenas.with(cpu, |arena| with(&mut arena.lingering)) }
    }

    /// Returns the machine's ticks if these pages should be unmapped lazily, or `None` if the unmap should be
    /// synchronous. Does not check that the pages are anonymous. Also frees those earlier ranges of this CPU
    /// that all CPUs have flushed.
    pub(super) fn lazy_ticks(&self, cpu: &Cpu<'m, M>, pages: Pages) -> Option<&Ticks> {
        let ticks = self.tree().ticks()?;
        if self.with_lingering(cpu, |all| all.len() == MOST_RANGES && !self.is_over(all)) {
            self.tree().settle(cpu, ticks);
        }
        let next = |all: &mut VecDeque<Lingering>| match self.is_over(all) {
            true => all.pop_front(),
            false => None,
        };
        while let Some(one) = self.with_lingering(cpu, next) {
            self.settle_in(cpu, one.pages);
            self.give_range(cpu, one.pages, one.mapped);
        }
        // A large unmap is synchronous, because it also frees tables, and a table with lingering entries
        // cannot be freed.
        let is_little = pages.count() < PRUNED_AT_ONCE && !self.tree().is_single_cpu(cpu.number());
        let has_room = || self.with_lingering(cpu, |all| all.try_reserve(1).is_ok());
        (is_little && has_room()).then_some(ticks)
    }

    /// Whether all CPUs have flushed the oldest range.
    fn is_over(&self, all: &VecDeque<Lingering>) -> bool {
        all.front().is_some_and(|oldest| self.tree().is_over(oldest.ticket))
    }

    /// Records that `pages` were unmapped lazily, and that `mapped` of them had been mapped. The addresses
    /// are not reused before all CPUs have flushed them.
    pub(super) fn lingers(&self, cpu: &Cpu<'m, M>, pages: Pages, mapped: u64, ticket: u64) {
        self.with_lingering(cpu, |all| all.push_back(Lingering { pages, mapped, ticket }));
        if is_mutant!("gives_what_lingers") {
            self.give_range(cpu, pages, mapped);
        }
    }
}
