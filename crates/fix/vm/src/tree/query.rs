//! Queries for mapped pages in locked subtrees.

use knee_sync::Platform;
use knee_sync::shim::is_mutant;

use crate::machine::Machine;
use crate::page::{Page, Pages};
use crate::tree::attributes::Attributes;
use crate::tree::node::{Branch, Leaf, NodeRef};

/// Whether any of these pages is mapped. The subtree must be locked for `pages`.
pub(crate) fn is_used(node: NodeRef<'_>, pages: Pages) -> bool {
    match node {
        // SAFETY: the leaf is locked.
        NodeRef::Leaf(leaf) => unsafe {
            leaf.with_states(|states| !states.is_free(leaf.slots(pages)))
        },
        NodeRef::Branch(branch) => {
            branch.overlaps(pages) || branch.children(pages).any(|child| is_used(child, pages))
        }
    }
}

/// Number of these pages that are mapped and are not guards. The subtree must be locked for `pages`.
#[inline]
pub(crate) fn mapped(node: NodeRef<'_>, pages: Pages) -> u64 {
    match node {
        // SAFETY: the leaf is locked.
        NodeRef::Leaf(leaf) => unsafe {
            leaf.with_states(|states| states.mapped(leaf.slots(pages)) as u64)
        },
        NodeRef::Branch(branch) => mapped_in_branch(branch, pages),
    }
}

fn mapped_in_branch(branch: &Branch, pages: Pages) -> u64 {
    let extents = branch.extents().overlapping(pages);
    let own = extents.iter().filter(|extent| !extent.attributes.is_guard());
    let own: u64 = own.map(|extent| extent.pages.and(pages).count()).sum();
    let below: u64 = branch.children(pages).map(|child| mapped(child, pages)).sum();
    own + below
}

/// The runs of `pages` with their attributes. All pages must be mapped, and the subtree of `top` must be
/// locked for them.
pub(crate) fn runs_of(
    top: NodeRef<'_>,
    mut pages: Pages,
) -> impl Iterator<Item = (Pages, Attributes)> {
    core::iter::from_fn(move || {
        let (run, attributes) = run_at(top, pages).filter(|_| !pages.is_empty())?;
        pages.start = run.end;
        Some((run, attributes))
    })
}

/// The run that starts with the first page of `pages`. All pages of the run have the same attributes, and are
/// stored by the same node. `None` if the first page is not mapped. The subtree must be locked for the first
/// page.
pub(crate) fn run_at(node: NodeRef<'_>, pages: Pages) -> Option<(Pages, Attributes)> {
    match node {
        // SAFETY: the leaf is locked.
        NodeRef::Leaf(leaf) => unsafe {
            leaf.with_states(|states| {
                let (attributes, count) = states.run(leaf.slots(pages))?;
                Some((Pages::new(pages.start, count as u64), attributes))
            })
        },
        NodeRef::Branch(branch) => {
            let first = branch.extents().overlapping(pages).first();
            match first.filter(|extent| extent.pages.contains(pages.start)) {
                Some(extent) => Some((extent.pages.and(pages), extent.attributes)),
                None => run_at(branch.child(branch.slot(pages.start))?, pages),
            }
        }
    }
}

/// The first run of mapped pages in `pages`, limited to what a single node stores. The caller must be pinned.
/// Locks only leaves, one at a time.
pub(crate) fn first_mapped(
    node: NodeRef<'_>,
    pages: Pages,
    platform: &impl Platform,
) -> Option<Pages> {
    let pages = pages.and(node.node().span());
    match node {
        NodeRef::Leaf(leaf) => {
            leaf.lock(platform);
            // SAFETY: the leaf is locked.
            let found = unsafe {
                leaf.with_states(|states| {
                    let is_free = |page: &Page| states.get(leaf.slot(*page)).is_none();
                    let start = pages.iter().find(|page| !is_free(page))?;
                    let rest = Pages { start, ..pages };
                    let end = rest.iter().find(is_free).unwrap_or(pages.end);
                    Some(Pages { start, end })
                })
            };
            leaf.unlock();
            found
        }
        NodeRef::Branch(branch) => {
            let own = branch.latched().read(|extents| extents.overlapping(pages).first()).flatten();
            let own = own.map(|extent| extent.pages.and(pages));
            // No child stores a page of this extent, so search the children only for pages before the extent.
            let before = Pages { start: pages.start, end: own.map_or(pages.end, |own| own.start) };
            if before.is_empty() {
                return own;
            }
            let slots = branch.slot(before.start)..=branch.slot(before.end - 1);
            let children = slots.filter_map(|slot| branch.child(slot));
            let below = |child| first_mapped(child, before, platform);
            children.into_iter().find_map(below).or(own)
        }
    }
}

/// Finds a leaf for which TLBs may have stale entries: the leaf is being flushed, or some of `pages`
/// linger in it. The subtree must be locked for `pages`.
#[inline]
pub(crate) fn stale_leaf<M: Machine>(node: NodeRef<'_>, pages: Pages) -> Option<&Leaf> {
    match node {
        NodeRef::Leaf(leaf) => {
            let mut lingering = leaf.flush_pending_in::<M::Format>(pages);
            let mut lingers = || lingering.next().is_some() && !is_mutant!("maps_what_lingers");
            (leaf.is_flushing() || lingers()).then_some(leaf)
        }
        NodeRef::Branch(branch) => stale_leaf_below::<M>(branch, pages),
    }
}

fn stale_leaf_below<M: Machine>(branch: &Branch, pages: Pages) -> Option<&Leaf> {
    branch.children(pages).find_map(|child| stale_leaf::<M>(child, pages))
}
