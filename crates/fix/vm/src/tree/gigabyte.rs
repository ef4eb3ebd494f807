//! Pages of 1 GiB, for device memory.
//!
//! The entry of such a page replaces the parent's pointer to the table of a branch just above the leaves.
//! This branch has no children, and its table stays empty. An operation that changes any of its pages, or
//! needs their leaves, first removes the page. Device memory has no content that would be lost, so faults
//! make smaller pages present again.
//!
//! To make or remove such a page, a CPU clears the entry, makes all CPUs flush, and then stores the new entry
//! ("break before make": Arm, "Architecture Reference Manual", D8.16). All other operations on these pages
//! wait meanwhile.

use core::sync::atomic::Ordering::{self, Relaxed};

use knee_sync::Platform;
use knee_sync::shim::{AtomicU64, is_mutant};

use crate::machine::format::ABSENT;
use crate::needed::Needed;
use crate::page::{Page, Pages};
use crate::tree::Tree;
use crate::tree::branch_link::BranchLink;
use crate::tree::lock::Locked;
use crate::tree::node::{Branch, NodeRef, entry_span};

/// The number of pages that a page of 1 GiB covers.
pub(crate) const GIGABYTE: u64 = entry_span(2);

impl Branch {
    /// What the parent's entry contains. Exact only if the caller has the lock.
    pub(crate) fn link(&self) -> BranchLink {
        self.atomic_link().get()
    }

    /// Whether the entry is being changed.
    pub(crate) fn is_flushing(&self) -> bool {
        self.link() == BranchLink::Flushing
    }

    /// The parent's entry for this branch.
    fn parent_entry(&self) -> &AtomicU64 {
        let parent = self.above().expect("the root is not a page");
        &parent.table().expect("branches have tables")[parent.slot(self.span().start)]
    }

    /// Clears the parent's entry. The caller must have the lock, and must then make all CPUs flush the span
    /// and call [`end_flush`](Branch::end_flush). Until then, the branch stays in the tree and gets no child.
    pub(crate) fn begin_flush(&self) {
        if !is_mutant!("gigabyte_stays") {
            self.parent_entry().store(ABSENT, Relaxed);
        }
        self.atomic_link().set(BranchLink::Flushing);
    }

    /// Stores the parent's entry, which must be what `link` says, after all CPUs have flushed. Only the
    /// operation that called [`begin_flush`](Branch::begin_flush) may call this.
    pub(crate) fn end_flush(
        &self,
        platform: &impl Platform,
        link: BranchLink,
        entry: u64,
        ordering: Ordering,
    ) {
        self.lock(platform);
        self.parent_entry().store(entry, ordering);
        self.atomic_link().set(link);
        self.unlock();
    }
}

impl<'a> Locked<'a> {
    /// Checks that no page of 1 GiB overlaps `pages`, which must be locked. A step that changes mapped pages
    /// must call this before it changes anything.
    #[inline]
    pub(crate) fn has_small_pages(&self, tree: &Tree, pages: Pages) -> Result<(), Needed> {
        match tree.has_gigabytes() && self.find_gigabyte(pages).is_some() {
            true => Err(Needed::SmallPages(pages)),
            false => Ok(()),
        }
    }

    /// The first page of 1 GiB that overlaps `pages`, which must be locked. Another CPU may be making or
    /// removing this page.
    #[cold]
    pub(crate) fn find_gigabyte(&self, pages: Pages) -> Option<&'a Branch> {
        find(self.top, pages)
    }
}

/// The first branch at or below `node` that overlaps `pages` and has no pointer to its table in the parent.
/// The caller must have the locks of the branches that overlap `pages`.
fn find(node: NodeRef<'_>, pages: Pages) -> Option<&Branch> {
    match node {
        NodeRef::Leaf(_) => None,
        NodeRef::Branch(branch) if branch.level() > 1 => {
            branch.children(pages).find_map(|child| find(child, pages))
        }
        NodeRef::Branch(branch) => (branch.link() != BranchLink::Table).then_some(branch),
    }
}

impl Tree {
    /// Whether the tree has ever had a page of 1 GiB. A caller that has the lock of a node learns of all such
    /// pages at and below the node.
    #[inline]
    pub(crate) fn has_gigabytes(&self) -> bool {
        self.gigabytes.load(Relaxed)
    }

    /// Records that the tree has a page of 1 GiB. The caller must have the lock of its branch.
    pub(crate) fn set_has_gigabytes(&self) {
        if !self.gigabytes.load(Relaxed) {
            self.gigabytes.store(true, Relaxed);
        }
    }

    /// Whether this page is part of a page of 1 GiB at this moment. The caller must be pinned.
    pub(crate) fn is_in_gigabyte(&self, page: Page) -> bool {
        let mut branch = self.root();
        loop {
            match branch.child(branch.slot(page)) {
                Some(NodeRef::Branch(child)) => branch = child,
                _ => return branch.link() != BranchLink::Table,
            }
        }
    }
}
