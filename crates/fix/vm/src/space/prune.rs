//! Freeing empty parts of the tree.

use core::ptr::NonNull;
use core::sync::atomic::Ordering::Relaxed;

use knee_sync::shim::is_mutant;

use super::Space;
use crate::cpu::Cpu;
use crate::machine::format::ABSENT;
use crate::machine::{Flush, Machine};
use crate::page::{Frame, Page, Pages};
use crate::tree::node::{Branch, Node, NodeRef, entry_span};

/// An unmap of at least this many pages also frees tables: 1 GiB, the span of a branch just above the
/// leaves.
pub(super) const PRUNED_AT_ONCE: u64 = entry_span(2);

/// Nodes that were detached from the tree, in intrusive lists.
struct Pruned {
    nodes: Option<NonNull<Node>>,
    /// Page tables, linked through the metadata of their frames.
    tables: Option<Frame>,
    /// The pages that CPUs may have accessed through these tables.
    pages: Pages,
}

impl<'m, M: Machine> Space<'m, M> {
    /// Searches the range `pages` for tree nodes in which nothing is mapped, and frees these nodes and their
    /// page tables. Keeps the lowest node that covers all of `pages`. Returns the number of frames that were
    /// freed.
    ///
    /// [`unmap`](Space::unmap) keeps tables unless it unmaps 1 GiB or more: pages are often mapped again
    /// soon at the same addresses, and allocating and freeing tables would then be most of the cost. Call
    /// `prune` when memory is scarce, as Linux calls its shrinkers.
    pub fn prune(&self, cpu: &Cpu<'m, M>, pages: Pages) -> u64 {
        self.check_cpu(cpu);
        let pages = pages.and(self.pages());
        if pages.is_empty() {
            return 0;
        }
        let mut pruned = Pruned {
            nodes: None,
            tables: None,
            pages: Pages { start: Page(u64::MAX), end: Page(0) },
        };
        let mut guard = None;
        let done = self.tree().locked(cpu, pages, |locked, _| {
            locked.has_small_pages(self.tree(), pages)?;
            if let NodeRef::Branch(top) = locked.top {
                pruned.below(self.machine, top, pages);
            }
            if !pruned.pages.is_empty() {
                guard = Some(self.tree().delay_large_pages());
            }
            Ok(())
        });
        debug_assert!(done.is_ok(), "the step needs no memory");
        if !pruned.pages.is_empty() {
            // CPUs may be walking these tables, or have them in their page-walk caches.
            let flush = match is_mutant!("prune_keeps_tables") {
                true => Flush::Range(pruned.pages),
                false => Flush::Tables(pruned.pages),
            };
            self.tree().shoot_down(cpu, flush);
            drop(guard);
        }
        let mut count = 0;
        while let Some(frame) = pruned.tables {
            pruned.tables = self.machine.frame_meta(frame).take_next();
            // SAFETY: the parent's entry for this table was cleared, and the shootdown flushed it from all
            // CPUs.
            unsafe { cpu.free(frame) };
            count += 1;
        }
        while let Some(node) = pruned.nodes {
            // SAFETY: we detached the node from the tree, and it stays allocated until it is retired.
            unsafe {
                pruned.nodes = node.as_ref().take_next();
                cpu.retire_node(node);
            }
        }
        count
    }
}

impl Pruned {
    /// Detaches those descendants of a branch that overlap `pages` and are empty. All descendants that
    /// overlap `pages` must be locked.
    fn below<M: Machine>(&mut self, machine: &M, branch: &Branch, pages: Pages) {
        for child in branch.children(pages) {
            let is_empty = match child {
                NodeRef::Leaf(leaf) => leaf.is_empty(),
                NodeRef::Branch(below) => {
                    self.below(machine, below, pages);
                    below.is_empty()
                }
            };
            if is_empty {
                let (slot, span) = (branch.slot(child.node().span().start), child.node().span());
                if child.node().table().is_some() {
                    let frame = child.node().table_frame();
                    let entries = branch.table().expect("branches have tables");
                    entries[slot].store(ABSENT, Relaxed);
                    machine.frame_meta(frame).set_next(self.tables);
                    self.tables = Some(frame);
                    self.pages.start = self.pages.start.min(span.start);
                    self.pages.end = self.pages.end.max(span.end);
                }
                // SAFETY: both nodes are locked.
                let node = unsafe { branch.remove(slot) };
                // SAFETY: we detached the node, and nobody else uses its link.
                unsafe { node.as_ref() }.set_next(self.nodes);
                self.nodes = Some(node);
            }
        }
    }
}
