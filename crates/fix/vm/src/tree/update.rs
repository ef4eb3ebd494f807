//! Updates of extents and page states, with memory that was allocated before.

use core::iter;
use core::sync::atomic::Ordering::Release;

use knee_sync::shim::{is_mutant, order};

use crate::machine::format::{Format, Table};
use crate::machine::{Machine, table_at};
use crate::needed::Lack;
use crate::page::Pages;
use crate::tree::attributes::Attributes;
use crate::tree::extents::Extents;
use crate::tree::lock::Locked;
use crate::tree::node::{Any, Branch, Leaf, reach};
use crate::tree::page_states::Codes;
use crate::tree::pool::TreePool;

/// Adds the child that has this page, locked.
pub(crate) fn add_child<M: Machine>(
    machine: &M,
    branch: &Branch,
    page: u64,
    spare: &mut TreePool,
) -> Result<(), Lack> {
    let reach = reach(branch.level());
    let (first, slot) = (page / reach * reach, branch.slot(page));
    let child = match branch.level() {
        1 => spare.leaf(first, branch)?.cast(),
        _ => {
            let child = spare.branch(machine, first, branch)?;
            // SAFETY: we have just made it.
            let frame = unsafe { child.as_ref() }.table_frame();
            let entries = branch.table().expect("branches have tables");
            entries[slot].store(M::Format::table(frame), Release);
            child.cast()
        }
    };
    // SAFETY: `spare` made what belongs there; the caller has the lock and has found none.
    unsafe { branch.add(slot, child) };
    Ok(())
}

/// Sees to it that pages can be changed without a lack in the middle: hands what covers them down
/// to the child that they are all in, and counts the lists that will be needed.
pub(crate) fn prepare<M: Machine>(
    machine: &M,
    locked: &Locked<'_>,
    spare: &mut TreePool,
) -> Result<(), Lack> {
    let pages = locked.pages;
    if let Any::Branch(branch) = locked.top
        && branch.is_one_slot(pages)
        && branch.extents().overlapping(pages).iter().any(|extent| !pages.covers(extent.pages))
    {
        hand_down(machine, branch, pages.start, spare)?;
        return Err(Lack::Nothing);
    }
    let mut extents = Lists::default();
    extents.count_extents(locked.top, pages, 2);
    spare.has_extents(extents.count, extents.room)
}

/// Moves the extents of a branch that have pages of one child to the child.
fn hand_down<M: Machine>(
    machine: &M,
    branch: &Branch,
    page: u64,
    spare: &mut TreePool,
) -> Result<(), Lack> {
    let Some(child) = branch.child(branch.slot(page)) else {
        return add_child(machine, branch, page, spare);
    };
    let span = child.node().span();
    let moved = branch.extents().overlapping(span);
    let mut lists = Lists::default();
    lists.need_in(branch, 2);
    if let Any::Branch(below) = child {
        lists.need_in(below, moved.len() + 2);
    }
    spare.has_extents(lists.count, lists.room)?;
    if is_mutant!("hands_down_late") {
        change_extents(branch, 0, spare, |list| list.set(span, None))?;
    }
    // The child has them first: who goes down the tree without locks finds them in one place at least.
    match child {
        // SAFETY: the child is locked, as it has pages that its parent was locked for.
        Any::Leaf(leaf) => unsafe {
            leaf.with_codes(|codes| -> Result<(), Lack> {
                make_room(codes, moved.len(), spare)?;
                for extent in moved.iter() {
                    codes.set(leaf.slots(extent.pages), extent.attributes);
                }
                Ok(())
            })?;
        },
        Any::Branch(below) => change_extents(below, moved.len(), spare, |list| {
            for extent in moved.iter() {
                list.set(extent.pages.and(span), Some(extent.attributes));
            }
        })?,
    }
    if is_mutant!("hands_down_late") {
        return Ok(());
    }
    change_extents(branch, 0, spare, |list| list.set(span, None))
}
/// Gives a leaf that is locked its table.
#[cold]
pub(crate) fn add_table<'a, M: Machine>(
    machine: &M,
    leaf: &'a Leaf,
    page: u64,
    spare: &mut TreePool,
) -> Result<&'a Table, Lack> {
    let frame = spare.table()?;
    // SAFETY: it has none, and the frame is zeroed and ours.
    unsafe { leaf.set_table(frame, table_at(machine, frame)) };
    let parent = leaf.above().expect("a leaf has a parent");
    let entries = parent.table().expect("branches have tables");
    // The entry of the parent's table belongs to who has the child's lock.
    entries[parent.slot(page)].store(M::Format::table(frame), order!(Release, "table_publish"));
    Ok(leaf.table().expect("it has one now"))
}

/// How many lists a change of some pages may need, and the largest room of them.
#[derive(Debug, Default)]
pub(crate) struct Lists {
    pub(crate) count: usize,
    pub(crate) room: usize,
}

impl Lists {
    pub(crate) fn need(&mut self, room: usize) {
        self.count += 1;
        self.room = self.room.max(room);
    }

    /// Adds copies of a branch that is locked, if there is no room there for so many more.
    pub(crate) fn need_in(&mut self, branch: &Branch, more: usize) {
        let room = branch.extents().len() + more;
        self.count += usize::from(branch.published().room() < room);
        // To change them takes room for two more.
        self.room = self.room.max(room + 2);
    }

    /// Adds those of extents that have any of these pages, of a node that is locked and of those below, which become
    /// so many more at most: the first and the last of a node's are split.
    #[inline]
    pub(crate) fn count_extents(&mut self, node: Any<'_>, pages: Pages, more: usize) {
        if let Any::Branch(branch) = node {
            self.count_extents_in(branch, pages, more);
        }
    }

    fn count_extents_in(&mut self, branch: &Branch, pages: Pages, more: usize) {
        let extents = branch.extents();
        if !extents.overlapping(pages).is_empty() {
            // None is split where the pages are all that there is.
            self.need_in(branch, if extents.are_in(pages) { more - 2 } else { more });
        }
        branch.children(pages).for_each(|child| self.count_extents(child, pages, more));
    }

    /// Adds those of kinds, of a node that is locked and of those below.
    pub(crate) fn count_kinds(&mut self, node: Any<'_>, pages: Pages) {
        match node {
            Any::Leaf(leaf) => {
                // SAFETY: it is locked.
                let room = unsafe { leaf.with_codes(|codes| codes.lacks_room(codes.kinds())) };
                room.into_iter().for_each(|room| self.need(room));
            }
            Any::Branch(branch) => {
                branch.children(pages).for_each(|child| self.count_kinds(child, pages));
            }
        }
    }
}

/// Sees to it that there is room for so many more kinds.
#[inline]
pub(crate) fn make_room(codes: &mut Codes, more: usize, spare: &mut TreePool) -> Result<(), Lack> {
    if let Some(room) = codes.lacks_room(more) {
        codes.make_room(spare.kinds(room)?);
    }
    Ok(())
}

#[inline]
pub(crate) fn map_leaf(
    leaf: &Leaf,
    pages: Pages,
    attributes: Attributes,
    spare: &mut TreePool,
) -> Result<bool, Lack> {
    let slots = leaf.slots(pages);
    // SAFETY: it is locked.
    unsafe {
        leaf.with_codes(|codes| {
            if !codes.is_free(slots.clone()) {
                return Ok(false);
            }
            make_room(codes, 1, spare)?;
            codes.set(slots, attributes);
            Ok(true)
        })
    }
}

/// Changes what has these pages in a leaf that is locked.
pub(crate) fn change_leaf(
    leaf: &Leaf,
    spare: &mut TreePool,
    pages: Pages,
    change: impl Fn(Attributes) -> Attributes,
) -> Result<(), Lack> {
    // SAFETY: it is locked.
    unsafe {
        leaf.with_codes(|codes| {
            make_room(codes, codes.kinds(), spare)?;
            codes.change(leaf.slots(pages), change);
            Ok(())
        })
    }
}

/// Changes the attributes of those of these pages that are in extents.
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

/// Takes what has these pages out of the extents of a branch that is locked.
pub(crate) fn forget_extents(
    branch: &Branch,
    pages: Pages,
    spare: &mut TreePool,
) -> Result<(), Lack> {
    match branch.published().copies() {
        // SAFETY: it is locked.
        Some(copies) if branch.extents().are_in(pages) => unsafe { copies.write(iter::empty()) },
        _ => change_extents(branch, 0, spare, |new| new.set(pages, None))?,
    }
    Ok(())
}

/// Changes the extents of a branch that is locked: `change` adds so many at most, and splits one or two.
pub(crate) fn change_extents(
    branch: &Branch,
    more: usize,
    spare: &mut TreePool,
    change: impl FnOnce(&mut Extents),
) -> Result<(), Lack> {
    let (old, published) = (branch.extents(), branch.published());
    spare.with_extents(old.len() + more + 2, |new, spare| {
        new.copy(old.iter());
        change(new);
        match published.copies().filter(|copies| copies.room() >= new.len()) {
            // SAFETY: it is locked.
            Some(copies) => unsafe { copies.write(new.iter()) },
            None => {
                let copies = spare.copies(new.len())?;
                // SAFETY: nobody else knows the copies, and the branch is locked.
                let old = unsafe {
                    copies.write(new.iter());
                    published.replace(copies)
                };
                spare.retire(old);
            }
        }
        Ok(())
    })
}
