//! Remaps: moving, growing and shrinking mappings.

use core::ptr;

use super::Space;
use super::swap::move_swapped;
use super::unmap::Unmapping;
use crate::backing::object_core::PinnedObject;
use crate::backing::{Backing, Marked, copied};
use crate::cpu::{Cpu, PerCpuPool};
use crate::error::MapError;
use crate::machine::Machine;
use crate::needed::Needed;
use crate::page::{ENTRIES, Page, Pages};
use crate::transaction::gather::TlbGather;
use crate::tree::attributes::Attributes;
use crate::tree::lock::Locked;
use crate::tree::node::{Leaf, NodeRef, Present, Swapped};
use crate::tree::pool::TreePool;
use crate::tree::query::{is_used, mapped, runs_of};
use crate::tree::update::{Demand, add_child, add_table, change_extents, make_room};

/// Outcome of one attempt to move.
enum Outcome<'m, M: Machine> {
    Moved,
    Failed(MapError),
    /// This anonymous page is shared with another space.
    Shared(Page),
    /// The move must wait until this object no longer throttles forks.
    Throttled(PinnedObject<'m, M>),
}

impl<'m, M: Machine> Space<'m, M> {
    /// Moves the mapping of `old`, with its present pages, to the start of `new`, and grows or shrinks it to
    /// the length of `new`: `mremap`. All of `old` must be mapped. Added pages have the attributes of the
    /// last page of `old`. If the last page of `old` maps an object, the mapping continues with the object's
    /// next pages. Nothing else may be mapped in `new`. The ranges may overlap only if they start at the same
    /// page.
    ///
    /// Pages that are shared with a [fork](Space::fork) of the space are copied when they move.
    ///
    /// ```
    /// use knee_vm::hosted::Hosted;
    /// use knee_vm::{Page, Pages, Protection, Space};
    ///
    /// let machine = Hosted::new(1024, 2);
    /// let cpu = machine.cpu(0);
    /// let space = Space::new(&cpu)?;
    /// space.map(&cpu, Pages::new(Page(100), 2), Protection::READ_WRITE)?;
    /// cpu.store(&space, Page(101).address(), 42).unwrap();
    /// space.remap(&cpu, Pages::new(Page(100), 2), Pages::new(Page(200), 8))?;
    /// assert_eq!(cpu.load(&space, Page(201).address()), Ok(42));
    /// # Ok::<(), knee_vm::MapError>(())
    /// ```
    ///
    /// # Errors
    /// See [`MapError`]; [`MapError::Overlap`] if the ranges overlap but do not start at the same page.
    /// Moving and resizing are separate steps, so an error may leave a part of the work done. If unmapping
    /// the pages of `old` beyond the new length fails, because memory runs out or another CPU has pinned a
    /// page, these pages may stay mapped although the mapping has moved. If the move fails, the pages that
    /// were added in `new` are unmapped again; if there is no memory for this unmapping, these pages stay
    /// mapped.
    pub fn remap(&self, cpu: &Cpu<'m, M>, old: Pages, new: Pages) -> Result<(), MapError> {
        self.check(cpu, old)?;
        self.check(cpu, new)?;
        let moves = old.start != new.start;
        if moves && old.overlaps(new) {
            return Err(MapError::Overlap);
        }
        self.mapped_all(cpu, old)?;
        let kept = Pages::new(old.start, old.count().min(new.count()));
        let less = Pages { start: kept.end, ..old };
        let pinned = |locked: &Locked<'_>| locked.pinned(self.tree(), self.machine);
        if !less.is_empty() && self.tree().locked(cpu, less, |locked, _| Ok(pinned(locked)))? > 0 {
            return Err(MapError::Pinned);
        }
        let more = Pages { start: new.start + kept.count(), ..new };
        let extended = match more.is_empty() {
            true => false,
            false => self.extend(cpu, old.end - 1, more).map(|()| true)?,
        };
        if moves && let Err(error) = self.relocate(cpu, kept, new.start) {
            if extended {
                // The error does not tell the caller that pages were added, so try to unmap them.
                let _ = self.unmap(cpu, more);
            }
            return Err(error);
        }
        if less.is_empty() { Ok(()) } else { self.unmap(cpu, less) }
    }

    /// Resizes the mapping of `old` to `count` pages, in place if possible, and otherwise moves it to a free
    /// range. Returns the new range.
    ///
    /// # Errors
    /// See [`remap`](Space::remap).
    pub fn remap_anywhere(
        &self,
        cpu: &Cpu<'m, M>,
        old: Pages,
        count: u64,
    ) -> Result<Pages, MapError> {
        self.check(cpu, old)?;
        let here = Pages::checked(old.start, count).ok_or(MapError::NoAddressSpace)?;
        match self.remap(cpu, old, here) {
            Err(MapError::Occupied | MapError::OutOfRange) if count > old.count() => {
                self.anywhere(cpu, count, |new| match new.overlaps(old) {
                    true => Err(MapError::Occupied),
                    false => self.remap(cpu, old, new),
                })
            }
            result => result.map(|()| here),
        }
    }

    fn mapped_all(&self, cpu: &Cpu<'m, M>, pages: Pages) -> Result<(), MapError> {
        let count = self.tree().locked(cpu, pages, |locked, _| Ok(mapped(locked.top, pages)))?;
        if count == pages.count() { Ok(()) } else { Err(MapError::Unmapped) }
    }

    /// Maps `more` with the attributes of page `last`. If page `last` maps an object, `more` maps the
    /// object's next pages.
    fn extend(&self, cpu: &Cpu<'m, M>, last: Page, more: Pages) -> Result<(), MapError> {
        // Attach the new backing while page `last` is locked. The mapping of `last` may be the only one that
        // keeps the object alive, and once the lock is released, another CPU may unmap `last`.
        let (attributes, backing) =
            self.tree().locked(cpu, Pages::new(last, 1), |locked, pool| {
                let Some(attributes) = locked.attributes(last) else {
                    return Ok(Err(MapError::Unmapped));
                };
                // SAFETY: the page is mapped, and its node is locked.
                let Some(backing) = (unsafe { Backing::of(attributes) }) else {
                    return Ok(Ok((attributes, None)));
                };
                let first = backing.index(last) + 1;
                if first.checked_add(more.count()).is_none() {
                    return Ok(Err(MapError::BeyondObject));
                }
                let more = backing.at(first, more, self.tree_pointer());
                let more = pool.backings.take(more)?;
                // SAFETY: this space is attached to the object, because the page is mapped.
                unsafe { Backing::attach(more, cpu.number(), cpu.platform(), false) };
                Ok(Ok((attributes, Some(more))))
            })??;
        let attributes = Attributes { backing: backing.map(Backing::id), ..attributes };
        let result = self.map_as(cpu, more, attributes);
        if let (Err(_), Some(backing)) = (&result, backing) {
            // SAFETY: `map_as` failed, so nothing is mapped by the backing.
            unsafe { Backing::detach(backing, self.machine) };
        }
        result
    }

    /// Moves the mappings of `old` to the range that starts at `to`.
    fn relocate(&self, cpu: &Cpu<'m, M>, old: Pages, to: Page) -> Result<(), MapError> {
        let new = Pages::new(to, old.count());
        let hull = Pages { start: old.start.min(to), end: old.end.max(new.end) };
        loop {
            let mut unmapping = Unmapping::new(TlbGather::new());
            let outcome = self.tree().locked(cpu, hull, |locked, pool| {
                self.relocate_in(cpu, locked, old, new, pool, &mut unmapping)
            })?;
            // SAFETY: frames were moved, and none was removed.
            unsafe { unmapping.finish(self.tree(), cpu) };
            match outcome {
                Outcome::Moved => {
                    self.give_range(cpu, old, old.count());
                    return Ok(());
                }
                Outcome::Failed(error) => return Err(error),
                Outcome::Throttled(object) => object.wait_while_throttled(cpu),
                Outcome::Shared(page) => {
                    self.collapse_to_self(cpu, Pages { start: page, ..old }, true)?;
                }
            }
        }
    }

    fn relocate_in(
        &self,
        cpu: &Cpu<'m, M>,
        locked: &Locked<'_>,
        old: Pages,
        new: Pages,
        pool: &mut PerCpuPool,
        unmapping: &mut Unmapping<'_>,
    ) -> Result<Outcome<'m, M>, Needed> {
        let top = locked.top;
        if mapped(top, old) < old.count() {
            return Ok(Outcome::Failed(MapError::Unmapped));
        }
        if is_used(top, new) {
            return Ok(Outcome::Failed(MapError::Occupied));
        }
        locked.has_small_pages(self.tree(), old)?;
        let there = |page: Page| new.start + (page - old.start);
        // This lock excludes concurrent moves of other pages of the same backings.
        let _alone = self.tree().lock_remap(self.machine.epoch().platform());
        // Reserve all memory before anything changes.
        let mut marked = Marked::default();
        let mut lists = Demand::default();
        let mut runs = 0;
        for (pages, attributes) in runs_of(top, old) {
            runs += 1;
            // SAFETY: the run is mapped, and its nodes are locked.
            unsafe { marked.add(attributes) };
            self.lowest_in(top, Pages::new(there(pages.start), pages.count()), &mut pool.tree)?;
        }
        if let Some(object) = marked.throttled(self.machine) {
            return Ok(Outcome::Throttled(object));
        }
        // Each run may split an extent in the source, and another extent in the destination.
        let more = 2 * runs + 2;
        lists.count_extents(top, old, more);
        let mut last = None;
        for (pages, _) in runs_of(top, old) {
            match self.lowest_in(
                top,
                Pages::new(there(pages.start), pages.count()),
                &mut pool.tree,
            )? {
                // SAFETY: the leaf is locked.
                NodeRef::Leaf(leaf) => unsafe {
                    leaf.with_states(|states| {
                        make_room(states, runs.min(ENTRIES), &mut pool.tree)
                    })?;
                },
                NodeRef::Branch(branch) if last.is_some_and(|last| ptr::eq(last, branch)) => (),
                NodeRef::Branch(branch) => {
                    lists.need_in(branch, more);
                    last = Some(branch);
                }
            }
        }
        pool.tree.has_extents(lists.count, lists.room)?;
        pool.backings.has(marked.count())?;
        let mut shared = None;
        locked.for_each_leaf(|leaf| {
            if leaf.span().overlaps(old) {
                leaf.fill(self.machine);
            }
            for Present { page, frame, .. } in leaf.present_in::<M::Format>(old) {
                let meta = self.machine.frame_meta(frame);
                if !meta.is_object() && meta.is_shared() && shared.is_none() {
                    shared = Some(page);
                }
            }
        });
        if let Some(page) = shared {
            return Ok(Outcome::Shared(page));
        }
        let mut needs = Ok(());
        locked.for_each_leaf(|leaf| {
            let present = leaf.present_in::<M::Format>(old).map(|present| present.page);
            let swapped = leaf.swapped_in::<M::Format>(old).map(|swapped| swapped.page);
            for page in present.chain(swapped) {
                if needs.is_ok() {
                    needs = self.leaf_in(top, there(page), &mut pool.tree).map(|_| ());
                }
            }
        });
        needs?;
        // All memory is reserved, so nothing below can fail.
        marked.copy(|backing| {
            let pages = backing.pages().and(old);
            let moved = Pages::new(there(pages.start), pages.count());
            let moved = backing.at(backing.index(pages.start), moved, self.tree_pointer());
            let moved = pool.backings.take(moved).expect("enough were reserved");
            // SAFETY: this space is attached to the object, which keeps the object alive. The backing
            // stays attached until nothing is mapped by it.
            unsafe {
                moved.as_ref().set_mapped(0);
                Backing::attach(moved, cpu.number(), cpu.platform(), true);
            }
            moved
        });
        locked.for_each_leaf(|leaf| {
            unmapping.gather.take_devices::<M>(leaf, old, |_, _| true);
            for Present { page, frame, .. } in leaf.present_in::<M::Format>(old) {
                let meta = self.machine.frame_meta(frame);
                if !meta.is_object() {
                    meta.set_origin(self.lineage.own(), there(page));
                }
                let to = self.leaf_in(top, there(page), &mut pool.tree).expect("the leaf exists");
                unmapping.gather.relocate::<M>((leaf, page), (to, there(page)), frame);
            }
            for Swapped { page, entry, .. } in leaf.swapped_in::<M::Format>(old) {
                let to = self.leaf_in(top, there(page), &mut pool.tree).expect("the leaf exists");
                move_swapped((leaf, entry), (to, there(page)));
            }
        });
        // Move the mappings run by run: unmap each run from the source, then map it in the destination.
        let mut rest = old;
        while let Some((pages, attributes)) = runs_of(top, rest).next() {
            rest.start = pages.end;
            // SAFETY: all backings were marked and copied above.
            let new = unsafe { copied(attributes) };
            // SAFETY: the run is mapped by this backing from now on, and its nodes are locked.
            if let Some(backing) = unsafe { Backing::of(new) } {
                backing.set_mapped(backing.mapped() + pages.count());
            }
            self.unmap_in(top, pages, &mut pool.tree, unmapping).expect("enough was reserved");
            let moved = Pages::new(there(pages.start), pages.count());
            let result = match self.lowest_in(top, moved, &mut pool.tree).expect("the node exists")
            {
                NodeRef::Leaf(leaf) => {
                    let slots = leaf.slots(moved);
                    // SAFETY: the leaf is locked.
                    unsafe { leaf.with_states(|states| states.set(slots, new)) };
                    Ok(())
                }
                NodeRef::Branch(branch) => {
                    change_extents(branch, 0, &mut pool.tree, |list| list.set(moved, Some(new)))
                }
            };
            result.expect("enough was reserved");
        }
        Ok(Outcome::Moved)
    }

    /// Returns the lowest node at or below `top` that covers all of `pages`, and adds missing nodes on the
    /// path. `top` must be locked. If the pages are mapped, their extents stay where they are.
    pub(super) fn lowest_in<'a>(
        &self,
        top: NodeRef<'a>,
        pages: Pages,
        pool: &mut TreePool,
    ) -> Result<NodeRef<'a>, Needed> {
        let mut node = top;
        while let NodeRef::Branch(branch) = node
            && branch.is_one_slot(pages)
        {
            match branch.child(branch.slot(pages.start)) {
                Some(child) => node = child,
                None => add_child(self.machine, branch, pages.start, pool)?,
            }
        }
        Ok(node)
    }

    /// Returns the leaf of `page` at or below `top`, and adds the leaf and its table if they are missing.
    /// `top` must be locked.
    fn leaf_in<'a>(
        &self,
        top: NodeRef<'a>,
        page: Page,
        pool: &mut TreePool,
    ) -> Result<&'a Leaf, Needed> {
        let NodeRef::Leaf(leaf) = self.lowest_in(top, Pages::new(page, 1), pool)? else {
            unreachable!("one page is in one slot");
        };
        if leaf.table().is_none() {
            add_table(self.machine, leaf, pool)?;
        }
        Ok(leaf)
    }
}
