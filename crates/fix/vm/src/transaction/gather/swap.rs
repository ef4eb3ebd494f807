//! Swapping pages out.

use core::sync::atomic::Ordering::{Relaxed, Release};

use knee_sync::shim::is_mutant;

use super::TlbGather;
use crate::machine::Machine;
use crate::machine::format::{Entry, Format};
use crate::page::{Frame, Page, Pages, Protection};
use crate::tree::node::{Leaf, Present};

impl TlbGather<'_> {
    /// Replaces the entries of private pages among `pages` with entries of swapped pages: `slot` gets a page
    /// and its frame, which now belongs to the caller, and returns the slot. Skips pages that are pinned or
    /// shared with other spaces. If `spares_accessed`, also skips pages whose accessed bit is set, and clears
    /// this bit; a large page has one bit, and is split only if the bit is clear. Stops at the first page for
    /// which `slot` returns `None`, and returns this page; otherwise returns the end of `pages`. The leaf
    /// must be locked as for [`take`](TlbGather::take).
    pub(crate) fn swap_out<M: Machine>(
        &mut self,
        machine: &M,
        leaf: &Leaf,
        pages: Pages,
        spares_accessed: bool,
        mut slot: impl FnMut(Page, Frame) -> Option<u64>,
    ) -> Page {
        let is_large = leaf.is_large() && spares_accessed && !is_mutant!("clock_splits_used");
        if is_large && leaf.set_large_accessed::<M::Format>(false) {
            if !is_mutant!("clock_no_flush") {
                // SAFETY: the leaf is locked, and no other operation is flushing it.
                self.leaves = unsafe { leaf.begin_flush_unsplit(self.leaves) };
                self.add_pages(leaf.span());
            }
            return pages.end;
        }
        let mut next = pages.end;
        leaf.fill(machine);
        for Present { page, entry, frame, protection } in leaf.present_in::<M::Format>(pages) {
            let meta = machine.frame_meta(frame);
            let is_shared = meta.is_shared() && !is_mutant!("swaps_shared");
            let is_pinned = meta.is_pinned() && !is_mutant!("swaps_pinned");
            if meta.is_object() || is_shared || is_pinned {
                continue;
            }
            let old = M::Format::read(entry.load(Relaxed), 0);
            let is_accessed = matches!(old, Entry::Page { accessed: true, .. }) && !is_large;
            if spares_accessed && is_accessed {
                let new = M::Format::clear_accessed(M::Format::page(frame, protection));
                // Release, as for every entry that other CPUs may read in page walks.
                entry.store(new, Release);
                self.flush(leaf, page);
                continue;
            }
            let Some(slot) = slot(page, frame) else {
                next = page;
                break;
            };
            // As in `TlbGather::take_usage` for a page that is not pinned.
            let dirty = protection.contains(Protection::WRITE) || meta.is_written();
            let dirty = dirty && !is_mutant!("swap_cleans");
            // Relaxed: the entry publishes nothing to the hardware, and the lock publishes it to other CPUs.
            entry.store(M::Format::swapped(slot, dirty), Relaxed);
            leaf.present().set(leaf.present().get() - 1);
            leaf.swapped().set(leaf.swapped().get() + 1);
            self.objects += 1;
            if !is_mutant!("swap_no_flush") {
                self.flush(leaf, page);
            }
        }
        if is_large && !leaf.is_large() {
            // The accessed bits of the table were set, but the large page was not accessed.
            for Present { entry, frame, protection, .. } in
                leaf.present_in::<M::Format>(leaf.span())
            {
                let new = M::Format::clear_accessed(M::Format::page(frame, protection));
                // Relaxed: no CPU finds the table before a fault puts it into the parent's entry.
                entry.store(new, Relaxed);
            }
        }
        next
    }
}
