//! To unmap.

use knee_sync::shim::is_mutant;

use super::Space;
use super::prune::PRUNED_AT_ONCE;
use crate::backing::{Backing, Backings};
use crate::cpu::Cpu;
use crate::error::MapError;
use crate::machine::Machine;
use crate::needed::Needed;
use crate::page::Pages;
use crate::transaction::gather::TlbGather;
use crate::tree::Tree;
use crate::tree::node::{Branch, NodeRef};
use crate::tree::pool::TreePool;
use crate::tree::update::{prepare, remove_extents};

/// What an operation unmaps, and that is still to be flushed and freed.
#[derive(Debug)]
pub(super) struct Unmapping {
    pub(super) gather: TlbGather,
    /// Backings by which nothing is mapped any more.
    backings: Backings,
}

impl Unmapping {
    pub(super) fn new(gather: TlbGather) -> Unmapping {
        Unmapping { gather, backings: Backings::default() }
    }

    /// As [`TlbGather::linger`], if no backing has to go.
    fn linger<M: Machine>(&self, tree: &Tree, cpu: &Cpu<'_, M>) -> Option<u64> {
        let has_backings = !self.backings.is_empty() && !is_mutant!("objects_linger");
        if has_backings { None } else { self.gather.linger(tree, cpu) }
    }

    /// Has CPUs forget it all, gives the frames back, and detaches the backings.
    ///
    /// # Safety
    /// The frames are in no table.
    #[inline]
    pub(super) unsafe fn finish<M: Machine>(self, tree: &Tree, cpu: &Cpu<'_, M>) {
        // SAFETY: the caller promises it.
        unsafe { self.gather.finish(tree, cpu) };
        if !self.backings.is_empty() {
            detach_all(self.backings, tree, cpu);
        }
    }
}

/// Detaches backings from their objects. Only now: whoever looks for pages of an object has to find those that CPUs may
/// still know.
fn detach_all<M: Machine>(mut backings: Backings, tree: &Tree, cpu: &Cpu<'_, M>) {
    while let Some(backing) = backings.pop() {
        // SAFETY: it is ours, and there until it is detached.
        let backing_of = unsafe { backing.as_ref() };
        if backing_of.has_gone_in_parts() && !is_mutant!("no_wait_for_parts") {
            // Others may wait for CPUs to forget theirs.
            let waited = tree.locked(cpu, backing_of.pages(), |_, _| Ok(()));
            debug_assert!(waited.is_ok(), "it allocates nothing");
        }
        // SAFETY: nothing is mapped by it, and all CPUs know.
        unsafe { Backing::detach(backing, cpu.machine()) };
    }
}

/// What was mapped.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Unmapped {
    /// Pages that were no guards.
    count: u64,
    has_guards: bool,
}

impl<'m, M: Machine> Space<'m, M> {
    /// Unmaps these pages, of which some or all may not be mapped. When it returns no CPU can go there, unless the
    /// space is [lazy](Space::set_lazy).
    ///
    /// # Errors
    /// See [`MapError`]: to unmap the middle of something needs memory.
    pub fn unmap(&self, cpu: &Cpu<'m, M>, pages: Pages) -> Result<(), MapError> {
        self.check(cpu, pages)?;
        let is_lazy = self.unmaps_lazily(cpu, pages);
        let mut unmapping =
            Unmapping::new(if is_lazy { TlbGather::lazy() } else { TlbGather::new() });
        let Unmapped { count, has_guards } = self.tree().locked(cpu, pages, |locked, pool| {
            prepare(self.machine, locked, &mut pool.tree)?;
            self.unmap_in(locked.top, pages, &mut pool.tree, &mut unmapping)
        })?;
        // Guards are not counted, and yet are addresses.
        let found = if count > 0 { count } else { has_guards.into() };
        let platform = self.machine.epoch().platform();
        if let Some(ticket) = unmapping.linger(self.tree(), cpu) {
            self.lingers(cpu, pages, count, ticket);
            self.tree().account.give_back(cpu.number(), count, platform);
            return Ok(());
        }
        // SAFETY: what was removed is not in the tables any more.
        unsafe { unmapping.finish(self.tree(), cpu) };
        self.tree().account.give_back(cpu.number(), count, platform);
        self.give_range(cpu, pages, found);
        if pages.count() >= PRUNED_AT_ONCE {
            self.prune(cpu, pages);
        }
        Ok(())
    }

    /// Unmaps what is mapped of these pages in a node that is locked and below.
    #[inline]
    pub(super) fn unmap_in(
        &self,
        node: NodeRef<'_>,
        pages: Pages,
        pool: &mut TreePool,
        unmapping: &mut Unmapping,
    ) -> Result<Unmapped, Needed> {
        match node {
            NodeRef::Leaf(leaf) => {
                let slots = leaf.slots(pages);
                let mut guards = 0;
                // SAFETY: it is locked, and what is mapped by its codes is so.
                let all = unsafe {
                    leaf.with_states(|states| {
                        if !states.are_plain() {
                            states.for_each_run(slots.clone(), |attributes, count| {
                                unmapping.backings.unmapped(attributes, count as u64);
                                guards += if attributes.is_guard() { count } else { 0 };
                            });
                        }
                        states.clear(slots)
                    })
                };
                unmapping.gather.take(self.machine, leaf, pages);
                Ok(Unmapped { count: (all - guards) as u64, has_guards: guards > 0 })
            }
            NodeRef::Branch(branch) => self.unmap_in_branch(branch, pages, pool, unmapping),
        }
    }

    fn unmap_in_branch(
        &self,
        branch: &Branch,
        pages: Pages,
        pool: &mut TreePool,
        unmapping: &mut Unmapping,
    ) -> Result<Unmapped, Needed> {
        let mut unmapped = Unmapped::default();
        let extents = branch.extents().overlapping(pages);
        for extent in extents.iter() {
            let count = extent.pages.and(pages).count();
            // SAFETY: it is locked, and these are mapped.
            unsafe { unmapping.backings.unmapped(extent.attributes, count) };
            match extent.attributes.is_guard() {
                true => unmapped.has_guards = true,
                false => unmapped.count += count,
            }
        }
        if !extents.is_empty() {
            remove_extents(branch, pages, pool)?;
        }
        for child in branch.children(pages) {
            let below = self.unmap_in(child, pages, pool, unmapping)?;
            unmapped.count += below.count;
            unmapped.has_guards |= below.has_guards;
        }
        Ok(unmapped)
    }
}
