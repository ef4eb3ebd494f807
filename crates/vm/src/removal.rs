//! What was taken out of tables and may still be known to CPUs.

use core::ptr::NonNull;
use core::sync::atomic::Ordering::{Relaxed, Release};

use crate::cpu::Cpu;
use crate::format::{ABSENT, Entry, Format};
use crate::machine::{Flush, Machine};
use crate::node::Leaf;
use crate::page::{Frame, Pages, Protection};
use crate::space::Space;

/// The end of a list of frames.
const END: u64 = u64::MAX;

/// Frames that are free as soon as CPUs have forgotten them, in a list through their notes; the pages that
/// CPUs have to forget, and the leaves of these.
///
/// Locks are given back before CPUs are asked: a CPU that waits for a lock could not answer. So a leaf
/// knows that it is being flushed, and who comes to change it waits. Otherwise somebody could map a page
/// anew, and go to the old one by what its CPU has not forgotten yet; or be told that pages are unmapped
/// while a CPU still has them.
#[derive(Debug)]
pub(crate) struct Removal {
    first: u64,
    pages: Pages,
    leaves: Option<NonNull<Leaf>>,
}

impl Removal {
    pub(crate) fn new() -> Removal {
        Removal { first: END, pages: Pages { start: u64::MAX, end: 0 }, leaves: None }
    }

    /// An entry of a leaf that is locked, and that is not being flushed for others, has changed.
    fn flush(&mut self, leaf: &Leaf, page: u64) {
        // SAFETY: that is what it takes.
        self.leaves = unsafe { leaf.begin_flush(self.leaves) };
        self.pages.start = self.pages.start.min(page);
        self.pages.end = self.pages.end.max(page + 1);
    }

    /// Takes what is present of these pages out of a leaf's table. The leaf is locked,
    /// and not being flushed for others.
    pub(crate) fn take<M: Machine>(&mut self, machine: &M, leaf: &Leaf, pages: Pages) {
        let mut present = leaf.present().get();
        let Some(entries) = leaf.table().filter(|_| present > 0) else { return };
        let pages = pages.and(leaf.span());
        for page in pages.start..pages.end {
            let entry = &entries[leaf.slot(page)];
            let (Entry::Page { frame, .. } | Entry::Parked(frame)) =
                M::Format::read(entry.load(Relaxed), 0)
            else {
                continue;
            };
            entry.store(ABSENT, Relaxed);
            machine.note(frame).next.set(self.first);
            self.first = frame.0;
            self.flush(leaf, page);
            present -= 1;
            if present == 0 {
                break;
            }
        }
        leaf.present().set(present);
    }

    /// Takes away from what is present of these pages what may not be done any more. As
    /// with [`take`](Removal::take).
    pub(crate) fn protect<M: Machine>(&mut self, leaf: &Leaf, pages: Pages, new: Protection) {
        let Some(entries) = leaf.table().filter(|_| leaf.present().get() > 0) else { return };
        let pages = pages.and(leaf.span());
        for page in pages.start..pages.end {
            let entry = &entries[leaf.slot(page)];
            let Entry::Page { frame, protection: old, .. } =
                M::Format::read(entry.load(Relaxed), 0)
            else {
                continue;
            };
            // What it allows beyond that comes with the next fault.
            let allowed = old & new;
            if allowed != old {
                entry.store(M::Format::page_or_parked(frame, allowed), Release);
                self.flush(leaf, page);
            }
        }
    }

    /// Has CPUs forget it all, and gives the frames back.
    ///
    /// # Safety
    /// The frames are in no table.
    pub(crate) unsafe fn finish<'m, M: Machine>(self, space: &Space<'m, M>, cpu: &Cpu<'m, M>) {
        if self.pages.is_empty() {
            return;
        }
        space.shoot_down(cpu, Flush::Some(self.pages));
        let mut leaves = self.leaves;
        while let Some(leaf) = leaves {
            // SAFETY: leaves stay as long as their space, and we have begun.
            leaves = unsafe { leaf.as_ref().end_flush() };
        }
        let mut next = self.first;
        while next != END {
            let frame = Frame(next);
            next = cpu.machine().note(frame).next.get();
            // SAFETY: no table has it, and no CPU remembers it.
            unsafe { cpu.free(frame) };
        }
    }
}
