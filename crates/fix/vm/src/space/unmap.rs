//! Unmapping pages.

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

/// The pages that an operation has unmapped, and still has to flush and free.
#[derive(Debug)]
pub(super) struct Unmapping<'t> {
    pub(super) gather: TlbGather<'t>,
    /// Backings to detach, because they no longer map any page.
    pub(super) backings: Backings,
}

impl<'t> Unmapping<'t> {
    pub(super) fn new(gather: TlbGather<'t>) -> Unmapping<'t> {
        Unmapping { gather, backings: Backings::default() }
    }

    /// Like [`TlbGather::linger`], but returns `None` if a backing must be detached.
    fn linger<M: Machine>(&self, tree: &Tree, cpu: &Cpu<'_, M>) -> Option<u64> {
        let has_backings = !self.backings.is_empty() && !is_mutant!("objects_linger");
        if has_backings { None } else { self.gather.linger(tree, cpu) }
    }

    /// Flushes the TLBs, frees the frames and detaches the backings.
    ///
    /// # Safety
    /// The frames must be in no table.
    #[inline]
    pub(super) unsafe fn finish<M: Machine>(self, tree: &Tree, cpu: &Cpu<'_, M>) {
        // SAFETY: the caller guarantees that the frames are in no table.
        unsafe { self.gather.finish(tree, cpu) };
        if !self.backings.is_empty() {
            detach_all(self.backings, tree, cpu);
        }
    }
}

/// Detaches backings from their objects. This must follow the flush: operations on an object have to find
/// all pages that TLBs may still hold.
fn detach_all<M: Machine>(mut backings: Backings, tree: &Tree, cpu: &Cpu<'_, M>) {
    while let Some(backing) = backings.pop() {
        // SAFETY: the backing is ours, and stays allocated until it is detached.
        let backing_of = unsafe { backing.as_ref() };
        if backing_of.has_gone_in_parts() && !is_mutant!("no_wait_for_parts") {
            // Other CPUs may have unmapped parts of the backing, and may still be waiting for their flushes.
            let waited = tree.locked(cpu, backing_of.pages(), |_, _| Ok(()));
            debug_assert!(waited.is_ok(), "the step needs no memory");
        }
        // SAFETY: nothing is mapped by the backing, and all CPUs have flushed its pages.
        unsafe { Backing::detach(backing, cpu.machine()) };
    }
}

/// Result of an unmap.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Unmapped {
    /// The number of pages that were mapped; guard pages do not count.
    count: u64,
    has_guards: bool,
}

impl<'m, M: Machine> Space<'m, M> {
    /// Unmaps these pages, and skips those that are not mapped. When `unmap` returns, no CPU can access the
    /// pages, unless the space is [lazy](Space::set_lazy).
    ///
    /// # Errors
    /// See [`MapError`]. Unmapping a part of a mapping may allocate memory.
    pub fn unmap(&self, cpu: &Cpu<'m, M>, pages: Pages) -> Result<(), MapError> {
        self.check(cpu, pages)?;
        let gather = self.lazy_ticks(cpu, pages).map_or_else(TlbGather::new, TlbGather::lazy);
        let mut unmapping = Unmapping::new(gather);
        let unmapped = self.tree().locked(cpu, pages, |locked, pool| {
            if locked.pinned(self.tree(), self.machine) > 0 && !is_mutant!("unmaps_pinned") {
                return Ok(None);
            }
            locked.has_small_pages(self.tree(), pages)?;
            prepare(self.machine, locked, &mut pool.tree)?;
            self.unmap_in(locked.top, pages, &mut pool.tree, &mut unmapping).map(Some)
        })?;
        let Unmapped { count, has_guards } = unmapped.ok_or(MapError::Pinned)?;
        // `count` does not include guard pages, but their addresses can be reused.
        let found = if count > 0 { count } else { has_guards.into() };
        let platform = self.machine.epoch().platform();
        if let Some(ticket) = unmapping.linger(self.tree(), cpu) {
            self.lingers(cpu, pages, count, ticket);
            self.tree().account.give_back(cpu.number(), count, platform);
            return Ok(());
        }
        // SAFETY: the gathered frames are no longer in any table.
        unsafe { unmapping.finish(self.tree(), cpu) };
        self.tree().account.give_back(cpu.number(), count, platform);
        self.give_range(cpu, pages, found);
        if pages.count() >= PRUNED_AT_ONCE {
            self.prune(cpu, pages);
        }
        Ok(())
    }

    /// Unmaps the mapped pages among `pages` in a locked node and below it.
    #[inline]
    pub(super) fn unmap_in(
        &self,
        node: NodeRef<'_>,
        pages: Pages,
        pool: &mut TreePool,
        unmapping: &mut Unmapping<'_>,
    ) -> Result<Unmapped, Needed> {
        match node {
            NodeRef::Leaf(leaf) => {
                let slots = leaf.slots(pages);
                let mut guards = 0;
                // SAFETY: the leaf is locked, and the pages of each run are mapped with its attributes.
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
                self.take_swapped(leaf, pages);
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
        unmapping: &mut Unmapping<'_>,
    ) -> Result<Unmapped, Needed> {
        let mut unmapped = Unmapped::default();
        let extents = branch.extents().overlapping(pages);
        for extent in extents.iter() {
            let count = extent.pages.and(pages).count();
            // SAFETY: the branch is locked, and these pages are mapped by the extent.
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
