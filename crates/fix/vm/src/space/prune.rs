//! To give back what empty parts of the tree have.

use core::ptr::NonNull;
use core::sync::atomic::Ordering::Relaxed;

use knee_sync::shim::is_mutant;

use super::Space;
use crate::cpu::Cpu;
use crate::machine::format::ABSENT;
use crate::machine::{Flush, Machine};
use crate::page::{Frame, Pages};
use crate::tree::node::{Branch, Node, NodeRef, entry_span};

/// To unmap so many pages frees tables as well: a gibibyte, what a branch above leaves is for.
pub(super) const PRUNED_AT_ONCE: u64 = entry_span(2);

/// Nodes that were taken out of the tree, in lists through what they are made of.
struct Pruned {
    nodes: Option<NonNull<Node>>,
    /// Tables, through the metadata of their frames.
    tables: Option<Frame>,
    /// What CPUs may have found by these tables.
    pages: Pages,
}

impl<'m, M: Machine> Space<'m, M> {
    /// Frees the tables of these pages, and what else there is for them, where nothing is mapped. The lowest
    /// that has all of them stays. Returns how many frames have come back.
    ///
    /// To unmap leaves them where they are, as pages are mapped again soon where others were, and to make and
    /// free tables is most of the cost of that then; unless a gibibyte or more goes at once. So an embedder
    /// calls this when memory is scarce, as it does others that can do without some (Linux' shrinkers).
    pub fn prune(&self, cpu: &Cpu<'m, M>, pages: Pages) -> u64 {
        self.check_cpu(cpu);
        let pages = pages.and(self.pages());
        if pages.is_empty() {
            return 0;
        }
        let mut pruned =
            Pruned { nodes: None, tables: None, pages: Pages { start: u64::MAX, end: 0 } };
        let done = self.tree().locked(cpu, pages, |locked, _| {
            if let NodeRef::Branch(top) = locked.top {
                pruned.below(self.machine, top, pages);
            }
            Ok(())
        });
        debug_assert!(done.is_ok(), "it lacks nothing");
        if !pruned.pages.is_empty() {
            // CPUs may be on their way through these tables, or have cached where they are.
            let flush = match is_mutant!("prune_keeps_tables") {
                true => Flush::Range(pruned.pages),
                false => Flush::Tables(pruned.pages),
            };
            self.tree().shoot_down(cpu, flush);
        }
        let mut count = 0;
        while let Some(frame) = pruned.tables {
            pruned.tables = self.machine.frame_meta(frame).take_next();
            // SAFETY: it is in no table, and no CPU goes there.
            unsafe { cpu.free(frame) };
            count += 1;
        }
        while let Some(node) = pruned.nodes {
            // SAFETY: it was taken out of the tree, and is there until it is retired.
            unsafe {
                pruned.nodes = node.as_ref().take_next();
                cpu.retire_node(node);
            }
        }
        count
    }
}

impl Pruned {
    /// Takes out those below a branch that have any of these pages and are empty. All of these are locked.
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
                // SAFETY: both are locked.
                let node = unsafe { branch.remove(slot) };
                // SAFETY: we have taken it out, and others do not use this.
                unsafe { node.as_ref() }.set_next(self.nodes);
                self.nodes = Some(node);
            }
        }
    }
}
