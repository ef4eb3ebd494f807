//! Swapping pages out.

use core::sync::atomic::Ordering::{Relaxed, Release};

use knee_sync::shim::is_mutant;

use super::TlbGather;
use crate::machine::Machine;
use crate::machine::format::{Entry, Format};
use crate::page::{Frame, Page, Pages};
use crate::tree::node::{Leaf, Present};

impl TlbGather<'_> {
    /// Replaces the entries of private pages among `pages` with entries of swapped pages: `slot` gets a page
    /// and its frame, which now belongs to the caller, and returns the slot. Skips pages that other spaces
    /// share and pages that are pinned. If `spares_accessed`, also skips pages whose accessed bit is set, and
    /// clears this bit. Stops at the first page for which `slot` returns `None`, and returns this page;
    /// otherwise returns the end of the pages. The leaf must be locked as for [`take`](TlbGather::take).
    pub(crate) fn swap_out<M: Machine>(
        &mut self,
        machine: &M,
        leaf: &Leaf,
        pages: Pages,
        spares_accessed: bool,
        mut slot: impl FnMut(Page, Frame) -> Option<u64>,
    ) -> Page {
        leaf.fill(machine);
        for Present { page, entry, frame, protection } in leaf.present_in::<M::Format>(pages) {
            let meta = machine.frame_meta(frame);
            let is_shared = meta.is_shared() && !is_mutant!("swaps_shared");
            let is_pinned = meta.is_pinned() && !is_mutant!("swaps_pinned");
            if meta.is_object() || is_shared || is_pinned {
                continue;
            }
            let old = M::Format::read(entry.load(Relaxed), 0);
            if spares_accessed && matches!(old, Entry::Page { accessed: true, .. }) {
                let new = M::Format::clear_accessed(M::Format::page(frame, protection));
                // Release, as for every entry that the page walks of other CPUs may read.
                entry.store(new, Release);
                self.flush(leaf, page);
                continue;
            }
            let Some(slot) = slot(page, frame) else { return page };
            // Relaxed: the entry publishes nothing to the hardware, and the lock publishes it to other CPUs.
            entry.store(M::Format::swapped(slot), Relaxed);
            leaf.present().set(leaf.present().get() - 1);
            leaf.swapped().set(leaf.swapped().get() + 1);
            self.objects += 1;
            if !is_mutant!("swap_no_flush") {
                self.flush(leaf, page);
            }
        }
        pages.end
    }
}
