//! Replacing mappings: `MAP_FIXED`.

use super::Space;
use super::unmap::{Unmapped, Unmapping};
use crate::backing::Sharing;
use crate::cpu::{Cpu, PerCpuPool};
use crate::error::MapError;
use crate::machine::Machine;
use crate::needed::Needed;
use crate::object::Object;
use crate::page::{Pages, Protection};
use crate::transaction::gather::TlbGather;
use crate::tree::attributes::Attributes;
use crate::tree::lock::Locked;
use crate::tree::node::NodeRef;
use crate::tree::query::mapped;
use crate::tree::update::{Demand, add_child, change_extents, make_room, prepare};

impl<'m, M: Machine> Space<'m, M> {
    /// Maps anonymous memory at these pages instead of whatever is mapped there: `MAP_FIXED`. A page that was
    /// mapped stays mapped throughout the call, so a concurrent `map` on another CPU cannot take it.
    /// When `replace` returns, no CPU can access the old pages.
    ///
    /// The quota is charged only for pages that were not mapped before, or that were guards.
    ///
    /// # Errors
    /// See [`MapError`].
    pub fn replace(
        &self,
        cpu: &Cpu<'m, M>,
        pages: Pages,
        protection: Protection,
    ) -> Result<(), MapError> {
        self.check(cpu, pages)?;
        self.replace_as(cpu, pages, Attributes::anonymous(protection.readable()))
    }

    /// Like [`replace`](Space::replace), but maps pages of `object`, starting with page `first`, as
    /// [`map_object`](Space::map_object) does.
    ///
    /// # Errors
    /// See [`MapError`].
    ///
    /// # Panics
    /// If `object` belongs to another machine.
    pub fn replace_with_object(
        &self,
        cpu: &Cpu<'m, M>,
        pages: Pages,
        object: &Object<'m, M>,
        first: u64,
        protection: Protection,
        sharing: Sharing,
    ) -> Result<(), MapError> {
        self.with_backing(cpu, pages, object, first, protection, sharing, |attributes| {
            self.replace_as(cpu, pages, attributes)
        })
    }

    fn replace_as(
        &self,
        cpu: &Cpu<'m, M>,
        pages: Pages,
        attributes: Attributes,
    ) -> Result<(), MapError> {
        let (tree, platform) = (self.tree(), self.machine().epoch().platform());
        let wanted = if attributes.is_guard() { 0 } else { pages.count() };
        let has_quota = tree.account.quota().is_some();
        loop {
            // Only the charge depends on this number, and without a quota nothing is charged.
            let old = match has_quota {
                true => tree.locked(cpu, pages, |locked, _| Ok(mapped(locked.top, pages)))?,
                false => 0,
            };
            let charge = tree.account.charge(cpu.number(), wanted.saturating_sub(old), platform)?;
            let mut unmapping = Unmapping::new(TlbGather::new());
            let replaced = tree.locked(cpu, pages, |locked, pool| {
                if locked.pinned(tree, self.machine()) > 0 {
                    return Ok(Err(MapError::Pinned));
                }
                if has_quota && mapped(locked.top, pages) != old {
                    return Ok(Ok(false));
                }
                locked.has_small_pages(tree, pages)?;
                self.replace_in(locked, attributes, pool, &mut unmapping)?;
                Ok(Ok(true))
            })??;
            if replaced {
                charge.keep();
                // SAFETY: the gathered frames are no longer in any table.
                unsafe { unmapping.finish(tree, cpu) };
                tree.account.give_back(cpu.number(), old.saturating_sub(wanted), platform);
                return Ok(());
            }
        }
    }

    fn replace_in(
        &self,
        locked: &Locked<'_>,
        attributes: Attributes,
        pool: &mut PerCpuPool,
        unmapping: &mut Unmapping<'_>,
    ) -> Result<(), Needed> {
        let (pages, pool) = (locked.pages, &mut pool.tree);
        prepare(self.machine(), locked, pool)?;
        match locked.top {
            NodeRef::Leaf(leaf) => {
                // SAFETY: the leaf is locked.
                unsafe { leaf.with_states(|states| make_room(states, 1, pool))? };
                self.unmap_in(locked.top, pages, pool, unmapping)?;
                // SAFETY: the leaf is locked, and its palette has room.
                unsafe { leaf.with_states(|states| states.set(leaf.slots(pages), attributes)) };
            }
            NodeRef::Branch(branch) => {
                let is_new = !branch.overlaps(pages);
                if is_new && branch.is_one_slot(pages) {
                    // There is no child for the pages yet.
                    add_child(self.machine(), branch, pages.start, pool)?;
                    return Err(Needed::Retry);
                }
                let mut extents = Demand::default();
                extents.count_extents(locked.top, pages, 2);
                if is_new {
                    extents.need_in(branch, 2);
                }
                pool.has_extents(extents.count, extents.room)?;
                let old = branch.extents().overlapping(pages);
                for extent in old.iter() {
                    let count = extent.pages.and(pages).count();
                    // SAFETY: the branch is locked, and these pages are mapped by the extent.
                    unsafe { unmapping.backings.unmapped(extent.attributes, count) };
                }
                // Readers without a lock see the whole change at once: they find the old extents or the new
                // one.
                change_extents(branch, 0, pool, |new| new.set(pages, Some(attributes)))?;
                for child in branch.children(pages) {
                    let _: Unmapped = self.unmap_in(child, pages, pool, unmapping)?;
                }
            }
        }
        Ok(())
    }
}
