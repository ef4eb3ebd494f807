//! To move what is mapped, and make it longer or shorter.

use core::ptr;

use super::Space;
use super::unmap::Unmapping;
use crate::backing::object_core::PinnedObject;
use crate::backing::{Backing, Marked, copied};
use crate::cpu::{Cpu, PerCpuPool};
use crate::error::MapError;
use crate::machine::Machine;
use crate::needed::Needed;
use crate::page::{ENTRIES, Pages};
use crate::transaction::gather::TlbGather;
use crate::tree::attributes::Attributes;
use crate::tree::lock::Locked;
use crate::tree::node::{Leaf, NodeRef};
use crate::tree::pool::TreePool;
use crate::tree::query::{is_used, mapped, runs_of};
use crate::tree::update::{Demand, add_child, add_table, change_extents, make_room};

/// What a look at what is to be moved comes to.
enum Outcome<'m, M: Machine> {
    Moved,
    Failed(MapError),
    /// Others have this page as well, which is not an object's.
    Shared(u64),
    /// This object takes no copies for a while.
    Throttled(PinnedObject<'m, M>),
}

impl<'m, M: Machine> Space<'m, M> {
    /// Moves what is mapped at `old`, all of it, with what is present, to where `new` begins, and makes it as
    /// long as `new`: more pages are as the last one is, and of an object those that follow. What is mapped there
    /// is in the way, but `new` may begin where `old` begins: `mremap`.
    ///
    /// Pages that were shared with a [copy](Space::fork) of the space are copied when they move.
    ///
    /// ```
    /// use knee_vm::hosted::Hosted;
    /// use knee_vm::{PAGE, Pages, Protection, Space};
    ///
    /// let machine = Hosted::new(1024, 2);
    /// let cpu = machine.cpu(0);
    /// let space = Space::new(&cpu)?;
    /// space.map(&cpu, Pages::new(100, 2), Protection::READ_WRITE)?;
    /// cpu.store(&space, 101 * PAGE as u64, 42).unwrap();
    /// space.remap(&cpu, Pages::new(100, 2), Pages::new(200, 8))?;
    /// assert_eq!(cpu.load(&space, 201 * PAGE as u64), Ok(42));
    /// # Ok::<(), knee_vm::MapError>(())
    /// ```
    ///
    /// # Errors
    /// See [`MapError`]; [`MapError::Overlap`] if the ranges overlap and do not begin together. To move and to
    /// change the length are two steps: where memory ends between them what was to go away is still there, or, if
    /// that cannot be undone for the same reason, what was to come is.
    pub fn remap(&self, cpu: &Cpu<'m, M>, old: Pages, new: Pages) -> Result<(), MapError> {
        self.check(cpu, old)?;
        self.check(cpu, new)?;
        let moves = old.start != new.start;
        if moves && old.overlaps(new) {
            return Err(MapError::Overlap);
        }
        self.mapped_all(cpu, old)?;
        let kept = Pages::new(old.start, old.count().min(new.count()));
        let more = Pages { start: new.start + kept.count(), ..new };
        let extended = match more.is_empty() {
            true => false,
            false => self.extend(cpu, old.end - 1, more).map(|()| true)?,
        };
        if moves && let Err(error) = self.relocate(cpu, kept, new.start) {
            if extended {
                // They were mapped as one, and nobody was told of them.
                let _ = self.unmap(cpu, more);
            }
            return Err(error);
        }
        let less = Pages { start: kept.end, ..old };
        if less.is_empty() { Ok(()) } else { self.unmap(cpu, less) }
    }

    /// The same, wherever there is room: where it is, if that is possible. Says where it is.
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
        let here = old.start.checked_add(count).map(|end| Pages { end, ..old });
        let here = here.ok_or(MapError::NoAddressSpace)?;
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

    /// Maps more pages as one is, or of its object those that follow.
    fn extend(&self, cpu: &Cpu<'m, M>, last: u64, more: Pages) -> Result<(), MapError> {
        // The object is there as long as the page is mapped: what follows is attached at once.
        let (attributes, backing) =
            self.tree().locked(cpu, Pages::new(last, 1), |locked, pool| {
                let Some(attributes) = locked.attributes(last) else {
                    return Ok(Err(MapError::Unmapped));
                };
                // SAFETY: the page is mapped and locked.
                let Some(backing) = (unsafe { Backing::of(attributes) }) else {
                    return Ok(Ok((attributes, None)));
                };
                let first = backing.index(last) + 1;
                if first.checked_add(more.count()).is_none() {
                    return Ok(Err(MapError::BeyondObject));
                }
                let more = backing.at(first, more, self.tree_pointer());
                let more = pool.backings.take(more)?;
                // SAFETY: this space is attached, as the page is mapped.
                unsafe { Backing::attach(more, cpu.number(), cpu.platform(), false) };
                Ok(Ok((attributes, Some(more))))
            })??;
        let attributes = Attributes { backing: backing.map(Backing::id), ..attributes };
        let result = self.map_as(cpu, more, attributes);
        if let (Err(_), Some(backing)) = (&result, backing) {
            // SAFETY: nothing was mapped.
            unsafe { Backing::detach(backing, self.machine) };
        }
        result
    }

    /// Moves what is mapped to where `to` begins.
    fn relocate(&self, cpu: &Cpu<'m, M>, old: Pages, to: u64) -> Result<(), MapError> {
        let new = Pages::new(to, old.count());
        let hull = Pages { start: old.start.min(to), end: old.end.max(new.end) };
        loop {
            let mut unmapping = Unmapping::new(TlbGather::new());
            let outcome = self.tree().locked(cpu, hull, |locked, pool| {
                self.relocate_in(cpu, locked, old, new, pool, &mut unmapping)
            })?;
            // SAFETY: frames were moved, and none is free.
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
        unmapping: &mut Unmapping,
    ) -> Result<Outcome<'m, M>, Needed> {
        let top = locked.top;
        if mapped(top, old) < old.count() {
            return Ok(Outcome::Failed(MapError::Unmapped));
        }
        if is_used(top, new) {
            return Ok(Outcome::Failed(MapError::Occupied));
        }
        let there = |page: u64| page - old.start + new.start;
        // Others may move other pages of the same backings.
        let _alone = self.tree().lock_remap(self.machine.epoch().platform());
        // All that will be needed, before anything changes.
        let mut marked = Marked::default();
        let mut lists = Demand::default();
        let mut runs = 0;
        for (pages, attributes) in runs_of(top, old) {
            runs += 1;
            // SAFETY: it is mapped, and locked.
            unsafe { marked.add(attributes) };
            self.lowest_in(top, Pages::new(there(pages.start), pages.count()), &mut pool.tree)?;
        }
        if let Some(object) = marked.throttled(self.machine) {
            return Ok(Outcome::Throttled(object));
        }
        // Each is split off once where it was, and splits one where it comes to.
        let more = 2 * runs + 2;
        lists.count_extents(top, old, more);
        let mut last = None;
        for (pages, _) in runs_of(top, old) {
            match self.lowest_in(
                top,
                Pages::new(there(pages.start), pages.count()),
                &mut pool.tree,
            )? {
                // SAFETY: it is locked.
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
            for (page, _, frame) in leaf.present_in::<M::Format>(old) {
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
            for (page, _, _) in leaf.present_in::<M::Format>(old) {
                if needs.is_ok() {
                    needs = self.leaf_in(top, there(page), &mut pool.tree).map(|_| ());
                }
            }
        });
        needs?;
        // Now nothing lacks.
        marked.copy(|backing| {
            let pages = backing.pages().and(old);
            let moved = Pages::new(there(pages.start), pages.count());
            let moved = backing.at(backing.index(pages.start), moved, self.tree_pointer());
            let moved = pool.backings.take(moved).expect("they were counted");
            // SAFETY: this space is attached to the object. It stays until nothing is mapped by it.
            unsafe {
                moved.as_ref().set_mapped(0);
                Backing::attach(moved, cpu.number(), cpu.platform(), true);
            }
            moved
        });
        locked.for_each_leaf(|leaf| {
            for (page, _, frame) in leaf.present_in::<M::Format>(old) {
                let meta = self.machine.frame_meta(frame);
                if !meta.is_object() {
                    meta.set_origin(self.lineage.own(), there(page));
                }
                let to = self.leaf_in(top, there(page), &mut pool.tree).expect("it is there");
                unmapping.gather.relocate::<M>((leaf, page), (to, there(page)), frame);
            }
        });
        // Run by run, from both sides: what is said here is not said there yet.
        let mut rest = old;
        while let Some((pages, attributes)) = runs_of(top, rest).next() {
            rest.start = pages.end;
            // SAFETY: backings were marked and copied.
            let new = unsafe { copied(attributes) };
            // SAFETY: it is mapped by it from now on, under the locks.
            if let Some(backing) = unsafe { Backing::of(new) } {
                backing.set_mapped(backing.mapped() + pages.count());
            }
            self.unmap_in(top, pages, &mut pool.tree, unmapping).expect("nothing lacks");
            let moved = Pages::new(there(pages.start), pages.count());
            let result = match self.lowest_in(top, moved, &mut pool.tree).expect("nothing lacks") {
                NodeRef::Leaf(leaf) => {
                    let slots = leaf.slots(moved);
                    // SAFETY: it is locked.
                    unsafe { leaf.with_states(|states| states.set(slots, new)) };
                    Ok(())
                }
                NodeRef::Branch(branch) => {
                    change_extents(branch, 0, &mut pool.tree, |list| list.set(moved, Some(new)))
                }
            };
            result.expect("nothing lacks");
        }
        Ok(Outcome::Moved)
    }

    /// The lowest node that has all these pages, at a node that is locked or below, with all nodes on the way.
    /// Nothing is mapped there.
    fn lowest_in<'a>(
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

    /// The leaf of a page with a table, at a node that is locked or below.
    fn leaf_in<'a>(
        &self,
        top: NodeRef<'a>,
        page: u64,
        pool: &mut TreePool,
    ) -> Result<&'a Leaf, Needed> {
        let NodeRef::Leaf(leaf) = self.lowest_in(top, Pages::new(page, 1), pool)? else {
            unreachable!("one page is in one slot");
        };
        if leaf.table().is_none() {
            add_table(self.machine, leaf, page, pool)?;
        }
        Ok(leaf)
    }
}
