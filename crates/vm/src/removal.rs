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
        let Some(entries) = leaf.table().filter(|_| leaf.present().get() > 0) else { return };
        let pages = pages.and(leaf.span());
        for page in pages.start..pages.end {
            let entry = &entries[leaf.slot(page)];
            let (Entry::Page { frame, .. } | Entry::Parked(frame)) =
                M::Format::read(entry.load(Relaxed), 0)
            else {
                continue;
            };
            self.flush(leaf, page);
            if machine.note(frame).is_shared() {
                // Whose list it is in is not ours to say, and who has it last must not free it before
                // our CPUs have forgotten it: the entry keeps it until then.
                entry.store(M::Format::leaving(frame), Relaxed);
                leaf.leaving().set(leaf.leaving().get() + 1);
                continue;
            }
            entry.store(ABSENT, Relaxed);
            machine.note(frame).next.set(self.first);
            self.first = frame.0;
            leaf.present().set(leaf.present().get() - 1);
            if leaf.present().get() == 0 {
                break;
            }
        }
    }

    /// Lets go of the pages of a leaf that were on their way out, which CPUs have forgotten; returns how
    /// many.
    ///
    /// # Safety
    /// That is so, and they are of the caller.
    unsafe fn let_go<M: Machine>(&self, cpu: &Cpu<'_, M>, leaf: &Leaf) -> u64 {
        let mut count = 0;
        leaf.lock(cpu.machine().epoch().platform());
        let pages = self.pages.and(leaf.span());
        let entries = leaf.table().filter(|_| leaf.leaving().get() > 0);
        for entry in entries.into_iter().flat_map(|entries| &entries[leaf.slots(pages)]) {
            if let Entry::Leaving(frame) = M::Format::read(entry.load(Relaxed), 0) {
                entry.store(ABSENT, Relaxed);
                leaf.leaving().set(leaf.leaving().get() - 1);
                leaf.present().set(leaf.present().get() - 1);
                // SAFETY: said by the caller.
                unsafe { release(cpu, frame) };
                count += 1;
            }
        }
        leaf.unlock();
        count
    }

    /// Takes writing away from what is present in a leaf, for which `share` is called with the slot and
    /// the entry of today. As with [`take`](Removal::take).
    pub(crate) fn share<M: Machine>(
        &mut self,
        machine: &M,
        leaf: &Leaf,
        share: impl Fn(usize, u64),
    ) {
        let Some(entries) = leaf.table().filter(|_| leaf.present().get() > 0) else { return };
        for (slot, entry) in entries.iter().enumerate() {
            let new = match M::Format::read(entry.load(Relaxed), 0) {
                Entry::Page { frame, protection, .. } => {
                    machine.note(frame).share();
                    let new = M::Format::page(frame, protection.without(Protection::WRITE));
                    if protection.allows(Protection::WRITE) {
                        entry.store(new, Release);
                        self.flush(leaf, leaf.span().start + slot as u64);
                    }
                    new
                }
                Entry::Parked(frame) => {
                    machine.note(frame).share();
                    M::Format::parked(frame)
                }
                _ => continue,
            };
            share(slot, new);
        }
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
        let (mut leaves, mut count) = (self.leaves, 0);
        while let Some(leaf) = leaves {
            // SAFETY: leaves stay as long as their space, and we have begun.
            unsafe {
                let leaf = leaf.as_ref();
                // Only we have entries here that leave.
                if leaf.leaving().get() > 0 {
                    count += self.let_go(cpu, leaf);
                }
                leaves = leaf.end_flush();
            }
        }
        let mut next = self.first;
        while next != END {
            let frame = Frame(next);
            count += 1;
            next = cpu.machine().note(frame).next.get();
            // SAFETY: no table has it, and no CPU remembers it.
            unsafe { cpu.free(frame) };
        }
        space.account.went(cpu.number(), count);
    }
}

/// Lets go of a frame that an entry had.
///
/// # Safety
/// The entry has it no more, and no CPU goes there by it.
pub(crate) unsafe fn release<M: Machine>(cpu: &Cpu<'_, M>, frame: Frame) {
    if cpu.machine().note(frame).release() {
        // SAFETY: no entry has it.
        unsafe { cpu.free(frame) };
    }
}
