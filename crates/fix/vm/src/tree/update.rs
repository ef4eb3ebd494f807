//! Updates of extents and page states, with preallocated memory.

use core::iter;
use core::sync::atomic::Ordering::Release;

use knee_sync::shim::{is_mutant, order};

use crate::machine::format::{Format, Table};
use crate::machine::{Machine, table_at};
use crate::needed::Needed;
use crate::page::{Page, Pages};
use crate::tree::attributes::Attributes;
use crate::tree::extents::Extents;
use crate::tree::lock::Locked;
use crate::tree::node::{Branch, Leaf, Link, NodeRef, entry_span};
use crate::tree::page_states::PageStates;
use crate::tree::pool::TreePool;

/// Adds the child that covers `page`. The new child is locked.
pub(crate) fn add_child<M: Machine>(
    machine: &M,
    branch: &Branch,
    page: Page,
    pool: &mut TreePool,
) -> Result<(), Needed> {
    let reach = entry_span(branch.level());
    let (first, slot) = (Page(page.0 / reach * reach), branch.slot(page));
    let child = match branch.level() {
        1 => pool.leaf(first, branch)?.cast(),
        _ => {
            let child = pool.branch(machine, first, branch)?;
            // SAFETY: the child was just created and is not published.
            let frame = unsafe { child.as_ref() }.table_frame();
            let entries = branch.table().expect("branches have tables");
            // Release: a CPU that finds the table sees the zeros in it.
            entries[slot].store(M::Format::table(frame), order!(Release, "branch_publish"));
            child.cast()
        }
    };
    // SAFETY: the pool made the node for this slot. The caller has the branch's lock, and found the slot
    // empty.
    unsafe { branch.add(slot, child) };
    Ok(())
}

/// Ensures that a change of the locked pages cannot run out of memory halfway. If an extent extends beyond
/// the pages, and one child covers all of the pages, hands the extent down and requests a retry. Otherwise
/// checks that the pool has the latches that the change needs.
pub(crate) fn prepare<M: Machine>(
    machine: &M,
    locked: &Locked<'_>,
    pool: &mut TreePool,
) -> Result<(), Needed> {
    let pages = locked.pages;
    if let NodeRef::Branch(branch) = locked.top
        && branch.is_one_slot(pages)
        && branch.extents().overlapping(pages).iter().any(|extent| !pages.covers(extent.pages))
    {
        hand_down(machine, branch, pages.start, pool)?;
        return Err(Needed::Retry);
    }
    let mut extents = Demand::default();
    extents.count_extents(locked.top, pages, 2);
    pool.has_extents(extents.count, extents.room)
}

/// Hands extents down to the child that covers `page`: those parts of the branch's extents that lie within
/// the child's span move to the child. If the child does not exist yet, adds the child and moves nothing.
fn hand_down<M: Machine>(
    machine: &M,
    branch: &Branch,
    page: Page,
    pool: &mut TreePool,
) -> Result<(), Needed> {
    let Some(child) = branch.child(branch.slot(page)) else {
        return add_child(machine, branch, page, pool);
    };
    let span = child.node().span();
    let moved = branch.extents().overlapping(span);
    let mut demand = Demand::default();
    demand.need_in(branch, 2);
    if let NodeRef::Branch(below) = child {
        demand.need_in(below, moved.len() + 2);
    }
    pool.has_extents(demand.count, demand.room)?;
    if is_mutant!("hands_down_late") {
        change_extents(branch, 0, pool, |list| list.set(span, None))?;
    }
    // The child gets the extents first, so that a lock-free reader on its way down finds them in at least
    // one node.
    match child {
        // SAFETY: the child is locked, because it overlaps the pages for which its parent was locked.
        NodeRef::Leaf(leaf) => unsafe {
            leaf.with_states(|states| -> Result<(), Needed> {
                make_room(states, moved.len(), pool)?;
                for extent in moved.iter() {
                    states.set(leaf.slots(extent.pages), extent.attributes);
                }
                Ok(())
            })?;
        },
        NodeRef::Branch(below) => change_extents(below, moved.len(), pool, |list| {
            for extent in moved.iter() {
                list.set(extent.pages.and(span), Some(extent.attributes));
            }
        })?,
    }
    if is_mutant!("hands_down_late") {
        return Ok(());
    }
    change_extents(branch, 0, pool, |list| list.set(span, None))
}

/// Gives a locked leaf its table, if it has none, and puts the table into the parent's entry. The leaf must
/// not be [flushing](Leaf::is_flushing).
#[cold]
pub(crate) fn add_table<'a, M: Machine>(
    machine: &M,
    leaf: &'a Leaf,
    pool: &mut TreePool,
) -> Result<&'a Table, Needed> {
    let entries = reserve_table(machine, leaf, pool)?;
    leaf.set_link(Link::Table, M::Format::table(leaf.table_frame()));
    Ok(entries)
}

/// Gives a locked leaf its table, if it has none.
pub(crate) fn reserve_table<'a, M: Machine>(
    machine: &M,
    leaf: &'a Leaf,
    pool: &mut TreePool,
) -> Result<&'a Table, Needed> {
    if leaf.table().is_none() {
        let frame = pool.table()?;
        // SAFETY: the leaf is locked and has no table. The frame is zeroed, and the pool gave it to us.
        unsafe { leaf.set_table(frame, table_at(machine, frame)) };
    }
    Ok(leaf.table().expect("the table was set above"))
}

/// The number of latches or palettes that a change may need, and the largest capacity that any of them
/// needs.
#[derive(Debug, Default)]
pub(crate) struct Demand {
    pub(crate) count: usize,
    pub(crate) room: usize,
}

impl Demand {
    pub(crate) fn need(&mut self, room: usize) {
        self.count += 1;
        self.room = self.room.max(room);
    }

    /// Counts a locked branch's demand: one latch if the branch's own latch has no room for `more` additional
    /// extents, otherwise none.
    pub(crate) fn need_in(&mut self, branch: &Branch, more: usize) {
        let room = branch.extents().len() + more;
        self.count += usize::from(branch.latched().room() < room);
        // The working copy of a change needs room for two more extents.
        self.room = self.room.max(room + 2);
    }

    /// Counts the latches that a locked subtree may need. The change may add at most `more` extents per
    /// branch, including two that result from splitting the first and the last extent.
    #[inline]
    pub(crate) fn count_extents(&mut self, node: NodeRef<'_>, pages: Pages, more: usize) {
        if let NodeRef::Branch(branch) = node {
            self.count_extents_in(branch, pages, more);
        }
    }

    fn count_extents_in(&mut self, branch: &Branch, pages: Pages, more: usize) {
        let extents = branch.extents();
        if !extents.overlapping(pages).is_empty() {
            // If the pages cover all extents, none is split.
            self.need_in(branch, if extents.are_in(pages) { more - 2 } else { more });
        }
        branch.children(pages).for_each(|child| self.count_extents(child, pages, more));
    }

    /// Counts the palettes that a locked subtree may need.
    pub(crate) fn count_palettes(&mut self, node: NodeRef<'_>, pages: Pages) {
        match node {
            NodeRef::Leaf(leaf) => {
                // SAFETY: the leaf is locked.
                let room =
                    unsafe { leaf.with_states(|states| states.room_needed(states.palette_len())) };
                room.into_iter().for_each(|room| self.need(room));
            }
            NodeRef::Branch(branch) => {
                branch.children(pages).for_each(|child| self.count_palettes(child, pages));
            }
        }
    }
}

/// Ensures room for `more` attributes in the palette.
#[inline]
pub(crate) fn make_room(
    states: &mut PageStates,
    more: usize,
    pool: &mut TreePool,
) -> Result<(), Needed> {
    if let Some(room) = states.room_needed(more) {
        states.make_room(pool.palette(room)?);
    }
    Ok(())
}

#[inline]
pub(crate) fn map_leaf(
    leaf: &Leaf,
    pages: Pages,
    attributes: Attributes,
    pool: &mut TreePool,
) -> Result<bool, Needed> {
    let slots = leaf.slots(pages);
    // SAFETY: the leaf is locked.
    unsafe {
        leaf.with_states(|states| {
            if !states.is_free(slots.clone()) {
                return Ok(false);
            }
            make_room(states, 1, pool)?;
            states.set(slots, attributes);
            Ok(true)
        })
    }
}

/// Changes the attributes of the mapped pages among `pages` in a locked leaf.
pub(crate) fn change_leaf(
    leaf: &Leaf,
    pool: &mut TreePool,
    pages: Pages,
    change: impl Fn(Attributes) -> Attributes,
) -> Result<(), Needed> {
    // SAFETY: the leaf is locked.
    unsafe {
        leaf.with_states(|states| {
            make_room(states, states.palette_len(), pool)?;
            states.change(leaf.slots(pages), change);
            Ok(())
        })
    }
}

/// Changes the attributes of the pages that are both in `pages` and in `extents`.
pub(crate) fn change_all(
    extents: &mut Extents,
    mut pages: Pages,
    change: impl Fn(Attributes) -> Attributes,
) {
    while !pages.is_empty()
        && let Some(first) = extents.first_of(pages)
    {
        let (part, new) = (first.pages.and(pages), change(first.attributes));
        extents.set(part, Some(new));
        pages.start = part.end;
    }
}

/// Removes `pages` from the extents of a locked branch.
pub(crate) fn remove_extents(
    branch: &Branch,
    pages: Pages,
    pool: &mut TreePool,
) -> Result<(), Needed> {
    match branch.latched().latch() {
        // SAFETY: the branch is locked.
        Some(latch) if branch.extents().are_in(pages) => unsafe { latch.write(iter::empty()) },
        _ => change_extents(branch, 0, pool, |new| new.set(pages, None))?,
    }
    Ok(())
}

/// Changes the extents of a locked branch. `change` may add at most `more` extents, not counting two that
/// result from splitting.
pub(crate) fn change_extents(
    branch: &Branch,
    more: usize,
    pool: &mut TreePool,
    change: impl FnOnce(&mut Extents),
) -> Result<(), Needed> {
    let (old, latched) = (branch.extents(), branch.latched());
    pool.with_extents(old.len() + more + 2, |new, pool| {
        new.copy(old.iter());
        change(new);
        match latched.latch().filter(|latch| latch.room() >= new.len()) {
            // SAFETY: the branch is locked.
            Some(latch) => unsafe { latch.write(new.iter()) },
            None => {
                let latch = pool.latch(new.len())?;
                // SAFETY: the new latch is not published yet, and the branch is locked.
                let old = unsafe {
                    latch.write(new.iter());
                    latched.replace(latch)
                };
                pool.retire(old);
            }
        }
        Ok(())
    })
}
