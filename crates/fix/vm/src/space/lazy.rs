//! To unmap pages that other CPUs forget at their next tick.

use alloc::collections::VecDeque;

use knee_sync::shim::is_mutant;

use super::Space;
use super::arena::Lingering;
use super::prune::PRUNED_AT_ONCE;
use crate::cpu::Cpu;
use crate::machine::Machine;
use crate::machine::ticks::Ticks;
use crate::page::Pages;

/// Ranges that a CPU has waiting for ticks in a space, of 64 pages that are present: so it is 8 MiB at most. With
/// one more all CPUs are interrupted once for all of them.
const MOST_RANGES: usize = 32;

impl<'m, M: Machine> Space<'m, M> {
    /// From now on who [unmaps](Space::unmap) a few pages of the space's own interrupts nobody: other CPUs may
    /// go on to use them, with what was allowed, until each has [ticked](crate::Ticks::tick), or is interrupted
    /// once for 32 ranges that a CPU has unmapped. Copies of the space are as it is.
    ///
    /// That is weaker than what `unmap` says, and nothing else is: who goes to a page after it was unmapped is
    /// not caught at once, and what he writes there is lost. The CPU that unmaps forgets at once. The frames
    /// are nobody else's meanwhile, and count as [resident](Space::resident). Where somebody maps such a page
    /// again, or changes it otherwise, all CPUs are interrupted first, so nobody finds old content there.
    ///
    /// All else is as it was: to discard, protect and move pages, to fork and to copy on write, and what goes
    /// out of an object, as there CPUs would go on with rights that they do not have, or see each other's
    /// writes not. So are pages of objects, or that a copy shares, and more than 64 at once that are present
    /// (LATR, ASPLOS 2018).
    ///
    /// ```
    /// use knee_vm::hosted::Hosted;
    /// use knee_vm::{PAGE, Pages, Protection, Space};
    ///
    /// let machine = Hosted::new(1024, 2);
    /// let (cpu, other) = (machine.cpu(0), machine.cpu(1));
    /// let space = Space::new(&cpu)?;
    /// space.set_lazy(true);
    /// let (pages, address) = (Pages::new(16, 4), 16 * PAGE as u64);
    /// space.map(&cpu, pages, Protection::READ_WRITE)?;
    /// other.store(&space, address, 42).unwrap();
    /// space.unmap(&cpu, pages)?; // And nobody waits for the other.
    /// assert!(cpu.load(&space, address).is_err());
    /// assert_eq!(other.load(&space, address), Ok(42));
    /// other.tick();
    /// assert!(other.load(&space, address).is_err());
    /// # Ok::<(), knee_vm::MapError>(())
    /// ```
    ///
    /// # Panics
    /// If the machine has no [ticks](Machine::ticks).
    pub fn set_lazy(&self, is_lazy: bool) {
        assert!(!is_lazy || self.machine.ticks().is_some(), "the machine has no ticks");
        self.tree().set_lazy(is_lazy);
    }

    /// Gives back the frames of what was unmapped [lazily](Space::set_lazy), for when memory is scarce: who
    /// has not ticked since is interrupted. Without that they come back when the CPU that has unmapped them
    /// unmaps something else.
    pub fn settle(&self, cpu: &Cpu<'m, M>) {
        self.check_cpu(cpu);
        self.settle_in(cpu, self.pages());
        while let Some(one) = self.with_lingering(cpu, |all| all.pop_front()) {
            self.give_range(cpu, one.pages, one.mapped);
        }
    }

    fn settle_in(&self, cpu: &Cpu<'m, M>, pages: Pages) {
        let done = self.tree().locked(cpu, pages, |_, _| Ok(()));
        debug_assert!(done.is_ok(), "it lacks nothing");
    }

    fn with_lingering<R>(
        &self,
        cpu: &Cpu<'m, M>,
        with: impl FnOnce(&mut VecDeque<Lingering>) -> R,
    ) -> R {
        // SAFETY: the CPU was checked.
        unsafe { self.arenas.with(cpu, |arena| with(&mut arena.lingering)) }
    }

    /// Whether these pages may be unmapped lazily, if they are of the space's own. Those of before that all have
    /// forgotten are given back.
    pub(super) fn unmaps_lazily(&self, cpu: &Cpu<'m, M>, pages: Pages) -> bool {
        if !self.tree().is_lazy() {
            return false;
        }
        let Some(ticks) = self.machine.ticks() else { return false };
        if self.with_lingering(cpu, |all| all.len() == MOST_RANGES && !self.is_over(all, ticks)) {
            self.tree().settle(cpu, ticks);
        }
        let next = |all: &mut VecDeque<Lingering>| match self.is_over(all, ticks) {
            true => all.pop_front(),
            false => None,
        };
        while let Some(one) = self.with_lingering(cpu, next) {
            self.settle_in(cpu, one.pages);
            self.give_range(cpu, one.pages, one.mapped);
        }
        // Tables may go with much that is unmapped.
        let is_little = pages.count() < PRUNED_AT_ONCE && !self.tree().is_single_cpu(cpu.number());
        is_little && self.with_lingering(cpu, |all| all.try_reserve(1).is_ok())
    }

    /// Whether all CPUs have forgotten the oldest.
    fn is_over(&self, all: &VecDeque<Lingering>, ticks: &Ticks) -> bool {
        all.front().is_some_and(|oldest| self.tree().is_over(oldest.ticket, ticks))
    }

    /// They were, of which so many were mapped. Nobody else is given their addresses before all have forgotten
    /// them.
    pub(super) fn lingers(&self, cpu: &Cpu<'m, M>, pages: Pages, mapped: u64, ticket: u64) {
        self.with_lingering(cpu, |all| all.push_back(Lingering { pages, mapped, ticket }));
        if is_mutant!("gives_what_lingers") {
            self.give_range(cpu, pages, mapped);
        }
    }
}
