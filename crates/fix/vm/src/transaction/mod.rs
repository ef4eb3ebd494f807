//! Operations on pages that are locked.

pub(crate) mod gather;

use crate::cpu::{Cpu, Lack, Spare};
use crate::error::OutOfMemory;
use crate::machine::Machine;
use crate::mutant::is_mutant;
use crate::page::Pages;
use crate::transaction::gather::Removal;
use crate::tree::Tree;
use crate::tree::fork_lock::Alone;
use crate::tree::lock::Locked;
use crate::tree::node::{Any, Branch, Leaf};

impl Tree {
    /// Calls `step` with the pages locked until it lacks nothing, and when no CPU knows what was there before.
    #[inline]
    pub(crate) fn locked<M: Machine, R>(
        &self,
        cpu: &Cpu<'_, M>,
        pages: Pages,
        step: impl FnMut(&Locked<'_>, &mut Spare) -> Result<R, Lack>,
    ) -> Result<R, OutOfMemory> {
        self.locked_as::<M, R, false>(cpu, pages, step).map(|(result, _)| result)
    }

    /// The same with all nodes, and nobody else begins to change anything until what is returned is dropped: from
    /// the first try on, so that there are few flushes to wait for.
    pub(crate) fn locked_alone<M: Machine, R>(
        &self,
        cpu: &Cpu<'_, M>,
        step: impl FnMut(&Locked<'_>, &mut Spare) -> Result<R, Lack>,
    ) -> Result<(R, Alone<'_>), OutOfMemory> {
        let (result, alone) = self.locked_as::<M, R, true>(cpu, self.pages(), step)?;
        Ok((result, alone.expect("all nodes were locked")))
    }

    #[inline]
    fn locked_as<M: Machine, R, const ALONE: bool>(
        &self,
        cpu: &Cpu<'_, M>,
        pages: Pages,
        mut step: impl FnMut(&Locked<'_>, &mut Spare) -> Result<R, Lack>,
    ) -> Result<(R, Option<Alone<'_>>), OutOfMemory> {
        let machine = cpu.machine();
        let (mut alone, mut turn, mut has_stocked) = (None, None, false);
        loop {
            let result = {
                let _guard = cpu.pin();
                let locked = self.lock_pages(machine, pages);
                let leaf = known::<M>(locked.top, pages);
                let flushes = |leaf: &Leaf| leaf.is_flushing() && !is_mutant!("no_wait_for_flush");
                let is_flushing = leaf.is_some_and(flushes);
                let forks =
                    alone.is_none() && self.forking.is_on() && !is_mutant!("no_wait_for_fork");
                if forks {
                    turn.get_or_insert_with(|| self.forking.turn());
                    drop(locked);
                    // SAFETY: a `Cpu` stays on its CPU, and we have no locks.
                    unsafe { machine.wait_while(cpu.number(), || self.forking.is_on()) };
                    continue;
                }
                if ALONE && alone.is_none() {
                    if turn.is_none() && self.forking.is_others_turn() {
                        drop(locked);
                        // SAFETY: as above.
                        unsafe {
                            machine.wait_while(cpu.number(), || self.forking.is_others_turn());
                        }
                        continue;
                    }
                    let is_late = is_flushing && is_mutant!("forks_last");
                    alone = (!is_late).then(|| self.forking.begin());
                }
                turn = None;
                if is_flushing {
                    drop(locked);
                    let waits = || leaf.is_some_and(flushes);
                    // SAFETY: as above.
                    unsafe { machine.wait_while(cpu.number(), waits) };
                    continue;
                }
                match leaf.is_some_and(|leaf| !leaf.is_flushing()) {
                    true => {
                        let mut removal = Removal::of_unmapped();
                        locked.for_each_leaf(|leaf| removal.settle(self, machine, leaf, pages));
                        Err(removal)
                    }
                    false => Ok(cpu.with_spare(|spare| step(&locked, spare))),
                }
            };
            let result = match result {
                Ok(result) => result,
                Err(removal) => {
                    // SAFETY: what lingers is of pages that are not mapped.
                    unsafe { removal.finish(self, cpu) };
                    continue;
                }
            };
            cpu.defer();
            match result {
                Ok(result) => {
                    if has_stocked {
                        cpu.with_spare(Spare::free_rest);
                    }
                    return Ok((result, alone));
                }
                Err(lack) => {
                    // Who has memory to give may be one who waits; and yet we are next.
                    if alone.take().is_some() {
                        turn = Some(self.forking.turn());
                    }
                    cpu.stock(lack)?;
                    has_stocked = true;
                }
            }
        }
    }
}

/// A leaf of which CPUs may know what was there before: it is being flushed, or some of these pages linger. At a
/// node that is locked or below.
#[inline]
fn known<M: Machine>(node: Any<'_>, pages: Pages) -> Option<&Leaf> {
    match node {
        Any::Leaf(leaf) => {
            let mut lingering = leaf.leaving_in::<M::Format>(pages);
            let mut lingers = || lingering.next().is_some() && !is_mutant!("maps_what_lingers");
            (leaf.is_flushing() || lingers()).then_some(leaf)
        }
        Any::Branch(branch) => known_below::<M>(branch, pages),
    }
}

fn known_below<M: Machine>(branch: &Branch, pages: Pages) -> Option<&Leaf> {
    branch.children(pages).find_map(|child| known::<M>(child, pages))
}
