//! Mapping, discarding, populating and protecting pages.

use super::Space;
use crate::backing::{Backing, Sharing};
use crate::cpu::Cpu;
use crate::error::{Fault, MapError, OutOfMemory};
use crate::machine::Machine;
use crate::needed::Needed;
use crate::object::Object;
use crate::page::{Pages, Protection};
use crate::transaction::gather::TlbGather;
use crate::tree::attributes::Attributes;
use crate::tree::node::{Branch, NodeRef};
use crate::tree::pool::TreePool;
use crate::tree::query::{is_used, mapped};
use crate::tree::update::{
    Demand, add_child, change_all, change_extents, change_leaf, map_leaf, prepare,
};

impl<'m, M: Machine> Space<'m, M> {
    /// Maps anonymous memory at these pages, all of which must be unmapped.
    ///
    /// # Errors
    /// See [`MapError`].
    pub fn map(
        &self,
        cpu: &Cpu<'m, M>,
        pages: Pages,
        protection: Protection,
    ) -> Result<(), MapError> {
        self.check(cpu, pages)?;
        self.map_as(cpu, pages, Attributes::anonymous(protection.readable()))
    }

    /// Maps `object` at `pages`, starting with page `first` of the object. All of `pages` must be unmapped.
    /// The mapping may extend beyond the end of the object: accesses there fail until the object has grown.
    ///
    /// # Errors
    /// See [`MapError`].
    ///
    /// # Panics
    /// If `object` belongs to another machine.
    pub fn map_object(
        &self,
        cpu: &Cpu<'m, M>,
        pages: Pages,
        object: &Object<'m, M>,
        first: u64,
        protection: Protection,
        sharing: Sharing,
    ) -> Result<(), MapError> {
        self.with_backing(cpu, pages, object, first, protection, sharing, |attributes| {
            self.map_as(cpu, pages, attributes)
        })
    }

    /// Calls `map` with the attributes that `pages` will have as a mapping of `object`. `map` must map all of
    /// `pages` with these attributes, or fail and map none.
    #[expect(clippy::too_many_arguments, reason = "the callers' arguments and a closure")]
    pub(super) fn with_backing(
        &self,
        cpu: &Cpu<'m, M>,
        pages: Pages,
        object: &Object<'m, M>,
        first: u64,
        protection: Protection,
        sharing: Sharing,
        map: impl FnOnce(Attributes) -> Result<(), MapError>,
    ) -> Result<(), MapError> {
        self.check(cpu, pages)?;
        assert!(
            core::ptr::eq(self.machine, object.machine()),
            "the object belongs to another machine"
        );
        // Guards have no content.
        if protection.readable() == Protection::GUARD {
            return Err(MapError::Guard);
        }
        if first.checked_add(pages.count()).is_none() {
            return Err(MapError::BeyondObject);
        }
        if object.is_device() && sharing == Sharing::Private {
            return Err(MapError::Device);
        }
        cpu.refill(Needed::Backings(1))?;
        let backing = Backing::new(object.core(), first, pages, self.tree_pointer(), sharing);
        let backing = cpu.with_pool(|pool| pool.backings.take(backing));
        let backing = backing.map_err(|_| OutOfMemory)?;
        let id = Some(Backing::id(backing));
        let attributes = Attributes { protection: protection.readable(), backing: id };
        // SAFETY: the caller's `object` keeps the core alive. If mapping fails, the backing is detached
        // below. If mapping succeeds, the backing is detached when it no longer maps any page.
        unsafe { Backing::attach(backing, cpu.number(), cpu.platform(), false) };
        let result = map(attributes);
        if result.is_err() {
            // SAFETY: `map` failed, so the backing maps no page.
            unsafe { Backing::detach(backing, self.machine) };
        }
        result
    }

    pub(super) fn map_as(
        &self,
        cpu: &Cpu<'m, M>,
        pages: Pages,
        attributes: Attributes,
    ) -> Result<(), MapError> {
        let platform = self.machine.epoch().platform();
        let count = if attributes.is_guard() { 0 } else { pages.count() };
        let charge = self.tree().account.charge(cpu.number(), count, platform)?;
        let is_mapped = self.tree().locked(cpu, pages, |locked, pool| match locked.top {
            NodeRef::Leaf(leaf) => map_leaf(leaf, pages, attributes, &mut pool.tree),
            NodeRef::Branch(branch) => self.map_branch(branch, pages, attributes, &mut pool.tree),
        })?;
        if !is_mapped {
            return Err(MapError::Occupied);
        }
        charge.keep();
        Ok(())
    }

    fn map_branch(
        &self,
        branch: &Branch,
        pages: Pages,
        attributes: Attributes,
        pool: &mut TreePool,
    ) -> Result<bool, Needed> {
        if branch.overlaps(pages) || branch.children(pages).any(|child| is_used(child, pages)) {
            return Ok(false);
        }
        if branch.is_one_slot(pages) {
            add_child(self.machine, branch, pages.start, pool)?;
            return Err(Needed::Retry);
        }
        change_extents(branch, 0, pool, |new| new.set(pages, Some(attributes)))?;
        Ok(true)
    }

    /// Discards the content of these pages and frees their frames: `MADV_DONTNEED`. Skips pages that are not
    /// mapped. The next access to an anonymous page finds zeros, and the next access to a page of an object
    /// finds the object's content.
    ///
    /// # Errors
    /// See [`MapError`].
    pub fn discard(&self, cpu: &Cpu<'m, M>, pages: Pages) -> Result<(), MapError> {
        self.check(cpu, pages)?;
        let mut gather = TlbGather::new();
        self.tree().locked(cpu, pages, |locked, _| {
            if locked.pinned(self.tree(), self.machine) > 0 {
                return Ok(Err(MapError::Pinned));
            }
            locked.has_small_pages(self.tree(), pages)?;
            locked.for_each_leaf(|leaf| {
                self.take_swapped(leaf, pages);
                gather.take(self.machine, leaf, pages);
            });
            Ok(Ok(()))
        })??;
        // SAFETY: the gathered frames are no longer in any table.
        unsafe { gather.finish(self.tree(), cpu) };
        Ok(())
    }

    /// Makes these pages present, as if a program read each of them in ascending order: `MADV_POPULATE_READ`.
    /// All pages must be mapped. Anonymous pages that are not shared also become writable, if their
    /// protection allows writes. For an empty range, does nothing.
    ///
    /// # Errors
    /// The error of the first page that cannot be read; all pages before it have been made present.
    /// [`Fault::Unmapped`] if the page is not mapped (`ENOMEM`), [`Fault::AccessDenied`] if it may not be
    /// read (`EINVAL`), [`Fault::Guard`] and [`Fault::BeyondEnd`] (`EFAULT`), [`Fault::OutOfMemory`],
    /// [`Fault::PagerFailed`] and [`Fault::Retry`].
    pub fn populate(&self, cpu: &Cpu<'m, M>, pages: Pages) -> Result<(), Fault> {
        self.check_cpu(cpu);
        // No flush is needed here: a CPU that has cached the absent PTE faults once, and flushes then.
        let read = |page| self.make_present(cpu, page, Protection::READ).map(drop);
        pages.iter().try_for_each(read)
    }

    /// Changes the protection of these pages, all of which must be mapped.
    ///
    /// # Errors
    /// See [`MapError`].
    pub fn protect(
        &self,
        cpu: &Cpu<'m, M>,
        pages: Pages,
        protection: Protection,
    ) -> Result<(), MapError> {
        self.check(cpu, pages)?;
        let protection = protection.readable();
        if protection == Protection::GUARD {
            return Err(MapError::Guard);
        }
        let mut gather = TlbGather::new();
        let is_mapped = self.tree().locked(cpu, pages, |locked, pool| {
            if mapped(locked.top, pages) < pages.count() {
                return Ok(false);
            }
            locked.has_small_pages(self.tree(), pages)?;
            let pool = &mut pool.tree;
            prepare(self.machine, locked, pool)?;
            let mut kinds = Demand::default();
            kinds.count_palettes(locked.top, pages);
            pool.has_palettes(kinds.count, kinds.room)?;
            self.protect_in(locked.top, pages, protection, pool, &mut gather)?;
            Ok(true)
        })?;
        // SAFETY: no frame was removed from a table.
        unsafe { gather.finish(self.tree(), cpu) };
        if is_mapped { Ok(()) } else { Err(MapError::Unmapped) }
    }

    fn protect_in(
        &self,
        node: NodeRef<'_>,
        pages: Pages,
        protection: Protection,
        pool: &mut TreePool,
        gather: &mut TlbGather<'_>,
    ) -> Result<(), Needed> {
        let change = |old| Attributes { protection, ..old };
        match node {
            NodeRef::Leaf(leaf) => {
                change_leaf(leaf, pool, pages, change)?;
                gather.protect(self.machine, leaf, pages, |_, _, _| protection);
            }
            NodeRef::Branch(branch) => {
                if branch.overlaps(pages) {
                    change_extents(branch, 0, pool, |new| change_all(new, pages, change))?;
                }
                for child in branch.children(pages) {
                    self.protect_in(child, pages, protection, pool, gather)?;
                }
            }
        }
        Ok(())
    }
}
