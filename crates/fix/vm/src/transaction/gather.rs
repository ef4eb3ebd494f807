//! What was taken out of tables and may still be in TLBs, as Linux's `mmu_gather`.

use core::ptr::NonNull;
use core::sync::atomic::Ordering::{Relaxed, Release};

use knee_sync::shim::{is_mutant, order};

use crate::cpu::Cpu;
use crate::machine::format::{ABSENT, Entry, Format};
use crate::machine::{Flush, Machine};
use crate::page::{Frame, Pages, Protection};
use crate::tree::Tree;
use crate::tree::node::Leaf;

/// If more present pages than these are unmapped lazily, CPUs are interrupted at once.
const MOST_LINGERING: usize = 64;

/// Pages that CPUs have to flush, the leaves of these pages, and frames that are free after the flush, in a list through
/// their metadata.
///
/// Locks are released before CPUs are interrupted, as a CPU that spins on a lock could not answer. So a leaf has a flag
/// that it is being flushed, and an operation that is about to change the leaf waits. Otherwise it could map a page
/// again while a CPU still reaches the old one by its TLB, or report pages as unmapped that a CPU can still access.
#[derive(Debug)]
pub(crate) struct TlbGather {
    first: Option<Frame>,
    pages: Pages,
    leaves: Option<NonNull<Leaf>>,
    /// Where moved pages arrive.
    arriving: Option<Pages>,
    /// Entries may [linger](Leaf::flush_pending_in) until CPUs have ticked.
    is_lazy: bool,
    /// How many linger.
    lingering: usize,
    /// The ticket of the last of these.
    ticket: u64,
    /// Other spaces have some of the frames, too.
    is_shared: bool,
    /// CPUs have ticked.
    is_forgotten: bool,
    /// Entries for frames of objects that were taken out: these frames are not ours.
    objects: u64,
}

impl TlbGather {
    pub(crate) fn new() -> TlbGather {
        TlbGather {
            first: None,
            pages: Pages { start: u64::MAX, end: 0 },
            leaves: None,
            arriving: None,
            is_lazy: false,
            lingering: 0,
            ticket: 0,
            is_shared: false,
            is_forgotten: false,
            objects: 0,
        }
    }

    /// A gather for a lazy unmap: CPUs may flush at their next tick.
    pub(crate) fn lazy() -> TlbGather {
        TlbGather { is_lazy: true, ..TlbGather::new() }
    }

    /// A gather of what [lingers](Leaf::flush_pending_in), to [settle](TlbGather::settle).
    pub(crate) fn of_lingering() -> TlbGather {
        TlbGather { is_forgotten: true, ..TlbGather::new() }
    }

    /// An entry of a leaf that is locked, and that is not being flushed for others, has changed.
    fn flush(&mut self, leaf: &Leaf, page: u64) {
        // SAFETY: that is what it takes.
        self.leaves = unsafe { leaf.begin_flush(self.leaves) };
        if is_mutant!("flushes_one_page") && !self.pages.is_empty() {
            return;
        }
        self.pages.start = self.pages.start.min(page);
        self.pages.end = self.pages.end.max(page + 1);
    }

    /// Takes what is present of these pages out of a leaf's table. The leaf is locked,
    /// and not being flushed for others.
    pub(crate) fn take<M: Machine>(&mut self, machine: &M, leaf: &Leaf, pages: Pages) {
        self.take_if(machine, leaf, pages, |_, _| true);
    }

    /// The same for those pages whose frames are `wanted`.
    #[inline]
    pub(crate) fn take_if<M: Machine>(
        &mut self,
        machine: &M,
        leaf: &Leaf,
        pages: Pages,
        wanted: impl Fn(u64, Frame) -> bool,
    ) {
        for (page, entry, frame) in leaf.present_in::<M::Format>(pages) {
            if !wanted(page, frame) {
                continue;
            }
            self.flush(leaf, page);
            let meta = machine.frame_meta(frame);
            let is_object = meta.is_object();
            let is_shared = meta.is_shared() && !is_mutant!("takes_shared_at_once");
            let lingers = self.is_lazy && self.lingering < MOST_LINGERING;
            if !is_object && (is_shared || lingers) {
                // Whose list it is in is not ours to say, and who has it last must not free it before
                // our CPUs have forgotten it: the entry keeps it until then. Who is lazy has no list.
                self.is_shared |= is_shared;
                self.lingering += 1;
                entry.store(M::Format::flush_pending(frame), Relaxed);
                leaf.flush_pending().set(leaf.flush_pending().get() + 1);
                continue;
            }
            entry.store(ABSENT, Relaxed);
            if is_object {
                self.objects += 1;
            } else {
                meta.set_next(self.first);
                self.first = Some(frame);
            }
            leaf.present().set(leaf.present().get() - 1);
            if leaf.present().get() == 0 {
                break;
            }
        }
        if let Some(ticks) = machine.ticks().filter(|_| self.is_lazy && !self.is_shared) {
            // Of all that was taken before it is read.
            self.ticket = ticks.ticket();
            for (_, frame) in leaf.flush_pending_in::<M::Format>(pages) {
                machine.frame_meta(frame).set_ticket(self.ticket);
            }
        }
    }

    /// Moves the frame of a page that is present to another entry, which is absent. As with
    /// [`take`](TlbGather::take), for both leaves. All that are moved are exclusive, and no others are taken.
    pub(crate) fn relocate<M: Machine>(
        &mut self,
        (leaf, page): (&Leaf, u64),
        (to, new): (&Leaf, u64),
        frame: Frame,
    ) {
        let (Some(from_entries), Some(to_entries)) = (leaf.table(), to.table()) else {
            unreachable!("both have tables");
        };
        from_entries[leaf.slot(page)].store(ABSENT, Relaxed);
        leaf.present().set(leaf.present().get() - 1);
        self.flush(leaf, page);
        // Nobody goes there by the new entry while others may by the old one.
        to_entries[to.slot(new)].store(M::Format::flush_pending(frame), Relaxed);
        to.present().set(to.present().get() + 1);
        to.flush_pending().set(to.flush_pending().get() + 1);
        // SAFETY: it is locked, and not being flushed for others.
        self.leaves = unsafe { to.begin_flush(self.leaves) };
        let arriving = self.arriving.get_or_insert(Pages::new(new, 1));
        (arriving.start, arriving.end) = (arriving.start.min(new), arriving.end.max(new + 1));
    }

    /// Has pages that were moved be present.
    fn complete_moves<M: Machine>(&self, cpu: &Cpu<'_, M>, leaf: &Leaf, pages: Pages) {
        let _guard = cpu.pin();
        leaf.lock(cpu.machine().epoch().platform());
        let pages = pages.and(leaf.span());
        let Some(entries) = leaf.table() else { unreachable!("its entries leave") };
        for page in pages.start..pages.end {
            let entry = &entries[leaf.slot(page)];
            let Entry::FlushPending(frame) = M::Format::read(entry.load(Relaxed), 0) else {
                continue;
            };
            let attributes = leaf.attributes(page).expect("it is mapped there");
            let mut protection = attributes.protection;
            if cpu.machine().frame_meta(frame).is_object() {
                // Whether it may be written to is found out when somebody does.
                protection = protection.difference(Protection::WRITE);
            }
            entry.store(M::Format::page_or_prot_none(frame, protection), Release);
            leaf.flush_pending().set(leaf.flush_pending().get() - 1);
        }
        leaf.unlock();
    }

    /// Lets go of the pages of a leaf that were on their way out, which CPUs have forgotten; returns how
    /// many.
    ///
    /// # Safety
    /// That is so, and they are of the caller.
    unsafe fn release_pending<M: Machine>(&self, cpu: &Cpu<'_, M>, leaf: &Leaf) -> u64 {
        let mut count = 0;
        leaf.lock(cpu.machine().epoch().platform());
        let pages = self.pages.and(leaf.span());
        let entries = leaf.table().filter(|_| leaf.flush_pending().get() > 0);
        for entry in entries.into_iter().flat_map(|entries| &entries[leaf.slots(pages)]) {
            if let Entry::FlushPending(frame) = M::Format::read(entry.load(Relaxed), 0) {
                entry.store(ABSENT, Relaxed);
                leaf.flush_pending().set(leaf.flush_pending().get() - 1);
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
    /// the entry of today. As with [`take`](TlbGather::take).
    pub(crate) fn share<M: Machine>(
        &mut self,
        machine: &M,
        leaf: &Leaf,
        share: impl Fn(usize, u64),
    ) {
        let Some(entries) = leaf.table().filter(|_| leaf.present().get() > 0) else { return };
        for (slot, entry) in entries.iter().enumerate() {
            let new = match M::Format::read(entry.load(Relaxed), 0) {
                // An object's, which may be written to if it is shared, by both.
                Entry::Page { frame, protection, .. } if machine.frame_meta(frame).is_object() => {
                    M::Format::page(frame, protection)
                }
                Entry::ProtNone(frame) if machine.frame_meta(frame).is_object() => {
                    M::Format::prot_none(frame)
                }
                Entry::Page { frame, protection, .. } => {
                    machine.frame_meta(frame).share();
                    let new = M::Format::page(frame, protection.difference(Protection::WRITE));
                    if protection.contains(Protection::WRITE) {
                        // No mutant: a model of a fork on an asymmetric platform takes minutes.
                        entry.store(new, Release);
                        if !is_mutant!("fork_no_flush") {
                            self.flush(leaf, leaf.span().start + slot as u64);
                        }
                    }
                    new
                }
                Entry::ProtNone(frame) => {
                    machine.frame_meta(frame).share();
                    M::Format::prot_none(frame)
                }
                _ => continue,
            };
            share(slot, new);
        }
    }

    /// Takes away from what is present of these pages what may not be done any more: `allowed` says of a page, its
    /// frame and what could be done what still may. As with [`take`](TlbGather::take).
    #[inline]
    pub(crate) fn protect<M: Machine>(
        &mut self,
        leaf: &Leaf,
        pages: Pages,
        allowed: impl Fn(u64, Frame, Protection) -> Protection,
    ) {
        for (page, entry, frame) in leaf.present_in::<M::Format>(pages) {
            let Entry::Page { protection: old, .. } = M::Format::read(entry.load(Relaxed), 0)
            else {
                continue;
            };
            // What it allows beyond that comes with the next fault.
            let allowed = old & allowed(page, frame, old);
            if allowed != old {
                entry.store(
                    M::Format::page_or_prot_none(frame, allowed),
                    order!(Release, "protect_publish"),
                );
                if is_mutant!("protect_no_flush") {
                    continue;
                }
                self.flush(leaf, page);
            }
        }
    }

    /// Takes those of these pages that [linger](Leaf::flush_pending_in) in a leaf that is locked, and not being
    /// flushed for others.
    pub(crate) fn settle<M: Machine>(
        &mut self,
        tree: &Tree,
        machine: &M,
        leaf: &Leaf,
        pages: Pages,
    ) {
        for (page, frame) in leaf.flush_pending_in::<M::Format>(pages) {
            self.flush(leaf, page);
            let ticket = machine.frame_meta(frame).ticket();
            let is_over = machine.ticks().is_some_and(|ticks| tree.is_over(ticket, ticks));
            self.is_forgotten &= is_over;
        }
    }

    /// If it is lazy, and all are pages of the space's own: leaves them until CPUs have ticked after the time that
    /// is returned, and has this CPU forget them. If not, it is still to [finish](TlbGather::finish).
    pub(crate) fn linger<M: Machine>(&self, tree: &Tree, cpu: &Cpu<'_, M>) -> Option<u64> {
        let has_others = self.is_shared || self.objects > 0;
        let is_much = self.first.is_some();
        let has_others = is_much || has_others && !is_mutant!("objects_linger");
        if !self.is_lazy || self.leaves.is_none() || has_others {
            return None;
        }
        let mut leaves = self.leaves;
        if !is_mutant!("keeps_what_lingers") {
            // SAFETY: a `Cpu` stays on its CPU.
            unsafe {
                cpu.machine().flush_local(cpu.number(), tree.number(), Flush::Range(self.pages))
            };
        }
        while let Some(leaf) = leaves {
            // SAFETY: leaves stay as long as their space, and we have begun.
            unsafe { leaves = leaf.as_ref().end_flush() };
        }
        Some(self.ticket)
    }

    /// Has CPUs forget it all, and gives the frames back.
    ///
    /// # Safety
    /// The frames are in no table.
    #[inline]
    pub(crate) unsafe fn finish<M: Machine>(self, tree: &Tree, cpu: &Cpu<'_, M>) {
        if !self.pages.is_empty() {
            // SAFETY: said by the caller.
            unsafe { self.flush_all(tree, cpu) };
        }
    }

    /// # Safety
    /// As of [`finish`](TlbGather::finish).
    unsafe fn flush_all<M: Machine>(&self, tree: &Tree, cpu: &Cpu<'_, M>) {
        let flush = || tree.shoot_down(cpu, Flush::Range(self.pages));
        if !self.is_forgotten && !is_mutant!("remove_no_flush", "flush_after_leaves", "flush_last")
        {
            flush();
        }
        let (mut leaves, mut count) = (self.leaves, self.objects);
        while let Some(leaf) = leaves {
            // SAFETY: leaves stay as long as their space, and we have begun.
            unsafe {
                let leaf = leaf.as_ref();
                // Only we have entries here that leave.
                if leaf.flush_pending().get() > 0 {
                    match self.arriving {
                        Some(pages) => self.complete_moves(cpu, leaf, pages),
                        None => count += self.release_pending(cpu, leaf),
                    }
                }
                leaves = leaf.end_flush();
            }
        }
        if is_mutant!("flush_after_leaves") {
            flush();
        }
        let mut next = self.first;
        while let Some(frame) = next {
            count += 1;
            next = cpu.machine().frame_meta(frame).take_next();
            if is_mutant!("frames_stay") {
                continue;
            }
            // SAFETY: no table has it, and no CPU remembers it.
            unsafe { cpu.free(frame) };
        }
        if is_mutant!("flush_last") {
            flush();
        }
        tree.account.sub_resident(cpu.number(), count);
    }
}

/// Lets go of a frame that an entry had.
///
/// # Safety
/// The entry has it no more, and no CPU goes there by it.
pub(crate) unsafe fn release<M: Machine>(cpu: &Cpu<'_, M>, frame: Frame) {
    if cpu.machine().frame_meta(frame).release() && !is_mutant!("shared_frames_stay") {
        // SAFETY: no entry has it.
        unsafe { cpu.free(frame) };
    }
}
