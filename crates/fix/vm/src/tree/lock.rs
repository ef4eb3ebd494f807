//! The lock protocol: which nodes an operation locks, and in which order.

use knee_sync::Platform;
use knee_sync::shim::{is_mutant, yield_in_model};

use crate::machine::Machine;
use crate::machine::frame_meta::FrameMeta;
use crate::page::{Frame, Page, Pages};
use crate::tree::Tree;
use crate::tree::attributes::Attributes;
use crate::tree::node::{Branch, Leaf, MOST_ABOVE, NodeRef, slot_at};

/// Locked nodes: the lowest node that holds all state of the pages, and those of its descendants that overlap
/// the pages.
pub(crate) struct Locked<'a> {
    pub(crate) top: NodeRef<'a>,
    pub(crate) pages: Pages,
}

impl Locked<'_> {
    /// Calls `with` for each locked leaf that overlaps the pages.
    pub(crate) fn for_each_leaf(&self, mut with: impl FnMut(&Leaf)) {
        fn below(node: NodeRef<'_>, pages: Pages, with: &mut dyn FnMut(&Leaf)) {
            match node {
                NodeRef::Leaf(leaf) => with(leaf),
                NodeRef::Branch(branch) => {
                    branch.children(pages).for_each(|child| below(child, pages, with));
                }
            }
        }
        below(self.top, self.pages, &mut with);
    }

    /// The attributes of `page`, if it is mapped. `self.pages` must contain only this page.
    pub(crate) fn attributes(&self, page: Page) -> Option<Attributes> {
        debug_assert_eq!(self.pages, Pages::new(page, 1));
        match self.top {
            // SAFETY: the leaf is locked.
            NodeRef::Leaf(leaf) => unsafe {
                leaf.with_states(|states| states.get(leaf.slot(page)))
            },
            NodeRef::Branch(branch) => branch.extents().find(page),
        }
    }

    /// The frame of a page, if it is present and not device memory.
    pub(crate) fn frame<M: Machine>(&self, page: Page) -> Option<Frame> {
        let mut found = None;
        self.for_each_leaf(|leaf| {
            found = found.or_else(|| leaf.frames_in::<M::Format>(Pages::new(page, 1)).next());
        });
        found
    }

    /// The number of private pages that are pinned.
    #[inline]
    pub(crate) fn pinned<M: Machine>(&self, tree: &Tree, machine: &M) -> usize {
        if tree.pins.0.count() == 0 { 0 } else { self.count_pinned(machine) }
    }

    #[cold]
    fn count_pinned<M: Machine>(&self, machine: &M) -> usize {
        let mut count = 0;
        self.for_each_leaf(|leaf| {
            let frames = leaf.frames_in::<M::Format>(self.pages);
            count += frames.filter(|&frame| is_pinned(machine.frame_meta(frame))).count();
        });
        count
    }

    /// Whether a page of device memory is present. While another CPU is making or removing a page of 1 GiB,
    /// its parts count as present, because TLBs may have them.
    pub(crate) fn has_device<M: Machine>(&self, page: Page) -> bool {
        let mut found = self.find_gigabyte(Pages::new(page, 1)).is_some();
        self.for_each_leaf(|leaf| {
            found |= leaf.devices_in::<M::Format>(Pages::new(page, 1)).next().is_some();
        });
        found
    }
}

/// Whether a frame is private and pinned.
#[inline]
pub(crate) fn is_pinned(meta: &FrameMeta) -> bool {
    !meta.is_object() && meta.is_pinned()
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        unlock(self.top, self.pages);
    }
}

/// A locked leaf. Dropping it unlocks the leaf, even if a callback of the embedder panics.
pub(crate) struct LockedLeaf<'a>(&'a Leaf);

impl<'a> LockedLeaf<'a> {
    #[inline]
    pub(crate) fn new(leaf: &'a Leaf, platform: &impl Platform) -> LockedLeaf<'a> {
        leaf.lock(platform);
        LockedLeaf(leaf)
    }
}

impl Drop for LockedLeaf<'_> {
    #[inline]
    fn drop(&mut self) {
        self.0.unlock();
    }
}

/// Locks a node and its descendants that overlap `pages`, parents before their children, and siblings in
/// page order. Every operation that locks more than one node must use this order.
// Without this attribute, the compiler would not inline a recursive function, and the call of `lock` for a
// leaf would take 2 ns of an operation's 60 ns.
#[inline(always)]
pub(crate) fn lock<M: Machine>(node: NodeRef<'_>, pages: Pages, platform: &M::Platform) {
    if !is_mutant!("locks_below_first") {
        node.node().lock(platform);
    }
    if let NodeRef::Branch(branch) = node {
        lock_below::<M>(branch, pages, platform);
    }
    if is_mutant!("locks_below_first") {
        node.node().lock(platform);
    }
}

fn lock_below<M: Machine>(branch: &Branch, pages: Pages, platform: &M::Platform) {
    branch.children(pages).for_each(|child| lock::<M>(child, pages, platform));
}

/// Unlocks a node and its descendants that overlap `pages`. Unlocks children before their parent: as soon as
/// a parent is unlocked, other CPUs may add children to it, and this CPU must not unlock those.
// Inlined for the same reason as `lock`.
#[inline(always)]
fn unlock(node: NodeRef<'_>, pages: Pages) {
    if is_mutant!("unlocks_above_first") {
        node.node().unlock();
        // Without this call, loom would not switch threads here.
        yield_in_model();
    }
    if let NodeRef::Branch(branch) = node {
        unlock_below(branch, pages);
    }
    if !is_mutant!("unlocks_above_first") {
        node.node().unlock();
    }
}

fn unlock_below(branch: &Branch, pages: Pages) {
    branch.children(pages).for_each(|child| unlock(child, pages));
}

impl Tree {
    /// Locks the nodes that hold all state of `pages`. The caller must be pinned.
    #[inline]
    pub(crate) fn lock_pages<M: Machine>(&self, machine: &M, pages: Pages) -> Locked<'_> {
        loop {
            let (top, above) = self.lowest(pages);
            lock::<M>(top, pages, machine.epoch().platform());
            let locked = Locked { top, pages };
            // Other CPUs may have changed the tree before we got the locks: check again.
            let node = top.node();
            let is_lowest = match top {
                NodeRef::Leaf(_) => true,
                NodeRef::Branch(branch) => is_end(branch, pages),
            };
            let is_lowest = is_lowest || is_mutant!("lock_not_lowest");
            // Check from the root down: extents may move down concurrently, and a check in the other order
            // could miss them.
            let mut above = above.into_iter().flatten();
            let is_below = above.any(|branch| branch.overlaps(pages));
            let is_below = is_below && !is_mutant!("lock_not_above");
            if is_lowest && !node.is_detached() && !is_below {
                return locked;
            }
        }
    }

    /// The lowest node that holds all state of `pages` at this moment, and the branches above it from the
    /// root down.
    #[inline]
    fn lowest(&self, pages: Pages) -> (NodeRef<'_>, [Option<&Branch>; MOST_ABOVE]) {
        let (mut above, mut count) = ([None; MOST_ABOVE], 0);
        let (mut branch, mut level) = (&self.root, self.root.level());
        loop {
            let slot = slot_at(level, pages.start);
            if slot != slot_at(level, pages.end - 1) || branch.overlaps(pages) {
                return (NodeRef::Branch(branch), above);
            }
            // SAFETY: `level` starts as the root's level, and decreases by one at each step from a branch to
            // its child.
            let Some(child) = (unsafe { branch.child_of_level(level, slot) }) else {
                return (NodeRef::Branch(branch), above);
            };
            above[count] = Some(branch);
            match child {
                NodeRef::Branch(child) => (branch, level, count) = (child, level - 1, count + 1),
                leaf => return (leaf, above),
            }
        }
    }
}

/// Whether this branch is the lowest node that holds all state of `pages`: one of its extents overlaps
/// them, or no single child covers all of them.
#[inline]
fn is_end(branch: &Branch, pages: Pages) -> bool {
    !branch.is_one_slot(pages)
        || branch.overlaps(pages)
        || branch.child(branch.slot(pages.start)).is_none()
}
