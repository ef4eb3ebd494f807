//! TLB gathers: translations that were removed from tables and may still be in TLBs, like Linux's
//! `mmu_gather`.

mod swap;

use core::ptr::NonNull;
use core::sync::atomic::Ordering::{Relaxed, Release};

use knee_sync::shim::{is_mutant, order};

use crate::cpu::Cpu;
use crate::machine::format::{ABSENT, Entry, Format};
use crate::machine::ticks::Ticks;
use crate::machine::{Flush, Machine};
use crate::page::{ENTRIES, Frame, Page, Pages, Protection, Usage};
use crate::tree::Tree;
use crate::tree::lock::{LockedLeaf, is_pinned};
use crate::tree::node::{Leaf, Link, Present, Swapped};

/// The maximum number of present pages in an unmap that waits for ticks instead of sending a shootdown. If
/// more pages are present, the unmap sends a shootdown at once.
const MOST_LINGERING: usize = 64;

/// Pages that CPUs have to flush, the leaves of these pages, and the frames to free after the flush. The
/// frames are linked into a list through their metadata.
///
/// Node locks must be released before the shootdown, because a CPU that spins on a lock cannot answer the
/// IPI. Therefore a flag marks each leaf that is being flushed, and an operation that is about to change such
/// a leaf waits. Without this wait, the operation could map a page again while a CPU still reaches the old
/// frame through its TLB, or report that pages are unmapped while a CPU can still access them.
#[derive(Debug)]
pub(crate) struct TlbGather<'t> {
    first: Option<Frame>,
    /// The list of large pages to free, linked through their first frames.
    large: Option<Frame>,
    pages: Pages,
    leaves: Option<NonNull<Leaf>>,
    /// The destination of moved pages.
    arriving: Option<Pages>,
    /// If set, entries may [linger](Leaf::flush_pending_in) until all CPUs have ticked.
    ticks: Option<&'t Ticks>,
    /// Number of entries left flush-pending.
    lingering: usize,
    /// The latest ticket of the lingering entries. A CPU whose last tick is later than this ticket has
    /// flushed these entries.
    ticket: u64,
    /// Whether some of the frames are shared with other spaces.
    is_shared: bool,
    /// Whether a large page was split. If so, entries must not linger: otherwise a TLB could have entries of
    /// both sizes.
    has_split: bool,
    /// Whether all CPUs have flushed the lingering entries since the unmap. If so, no shootdown is needed.
    is_forgotten: bool,
    /// Number of removed entries whose frames the gather must not free: they belong to objects, or their
    /// pages were swapped out.
    objects: u64,
}

impl<'t> TlbGather<'t> {
    pub(crate) fn new() -> TlbGather<'t> {
        TlbGather {
            first: None,
            large: None,
            pages: Pages { start: Page(u64::MAX), end: Page(0) },
            leaves: None,
            arriving: None,
            ticks: None,
            lingering: 0,
            ticket: 0,
            is_shared: false,
            has_split: false,
            is_forgotten: false,
            objects: 0,
        }
    }

    /// A gather for a lazy unmap: other CPUs may flush their TLBs at their next tick.
    pub(crate) fn lazy(ticks: &'t Ticks) -> TlbGather<'t> {
        TlbGather { ticks: Some(ticks), ..TlbGather::new() }
    }

    /// A gather for [lingering](Leaf::flush_pending_in) entries, which [`settle`](TlbGather::settle) adds.
    pub(crate) fn of_lingering() -> TlbGather<'t> {
        TlbGather { is_forgotten: true, ..TlbGather::new() }
    }

    /// Records that the entry of `page` changes. The leaf must be locked, and no other operation may be
    /// flushing it.
    fn flush(&mut self, leaf: &Leaf, page: Page) {
        let is_large = leaf.is_large();
        self.has_split |= is_large;
        let pages = if is_large && !is_mutant!("splits_one_page") {
            leaf.span()
        } else {
            Pages::new(page, 1)
        };
        // SAFETY: the caller has locked the leaf, and no other operation is flushing it.
        self.leaves = unsafe { leaf.begin_flush(self.leaves) };
        if is_mutant!("flushes_one_page") && !self.pages.is_empty() {
            return;
        }
        self.add_pages(pages);
    }

    fn add_pages(&mut self, pages: Pages) {
        self.pages.start = self.pages.start.min(pages.start);
        self.pages.end = self.pages.end.max(pages.end);
    }

    /// Removes the present pages among `pages` from a leaf's table. The leaf must be locked, and no other
    /// operation may be flushing it.
    pub(crate) fn take<M: Machine>(&mut self, machine: &M, leaf: &Leaf, pages: Pages) {
        if leaf.is_large() && leaf.devices().get() == 0 && pages.covers(leaf.span()) {
            return self.take_large(machine, leaf);
        }
        self.take_if(machine, leaf, pages, |_, _| true);
    }

    /// Removes a large page. Spaces never share large pages, so all of its frames become free.
    #[cold]
    fn take_large<M: Machine>(&mut self, machine: &M, leaf: &Leaf) {
        let frame = leaf.large_frame::<M::Format>().expect("the large page is private memory");
        if leaf.link() == Link::Filled {
            leaf.table().into_iter().flatten().for_each(|entry| entry.store(ABSENT, Relaxed));
        }
        leaf.present().set(0);
        self.flush(leaf, leaf.span().start);
        machine.frame_meta(frame).set_next(self.large);
        self.large = Some(frame);
    }

    /// Like [`take`](TlbGather::take), but only for pages for which `wanted` returns true.
    #[inline]
    pub(crate) fn take_if<M: Machine>(
        &mut self,
        machine: &M,
        leaf: &Leaf,
        pages: Pages,
        wanted: impl Fn(Page, Frame) -> bool,
    ) {
        leaf.fill(machine);
        self.take_devices::<M>(leaf, pages, &wanted);
        for Present { page, entry, frame, .. } in leaf.present_in::<M::Format>(pages) {
            if !wanted(page, frame) {
                continue;
            }
            self.flush(leaf, page);
            let meta = machine.frame_meta(frame);
            let is_object = meta.is_object();
            let is_shared = meta.is_shared() && !is_mutant!("takes_shared_at_once");
            let lingers = self.ticks.is_some() && self.lingering < MOST_LINGERING;
            if !is_object && (is_shared || lingers) {
                // A shared frame must not go on our list, because another space may be using its link. Nor
                // may the frame be freed before our shootdown completes: the flush-pending entry keeps a
                // reference until then. The frame of a lazily unmapped page needs no list either, because its
                // flush-pending entry refers to it.
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
        if let Some(ticks) = self.ticks.filter(|_| !self.is_shared) {
            // A ticket covers only entries that were removed before the ticket was taken, so take it last.
            self.ticket = ticks.ticket();
            for (_, frame) in leaf.flush_pending_in::<M::Format>(pages) {
                machine.frame_meta(frame).set_ticket(self.ticket);
            }
        }
    }

    /// Removes the present pages of device memory among `pages` for which `wanted` returns true. The next
    /// fault on a removed page makes the page present again. The leaf must be locked as for
    /// [`take`](TlbGather::take).
    #[inline]
    pub(crate) fn take_devices<M: Machine>(
        &mut self,
        leaf: &Leaf,
        pages: Pages,
        wanted: impl Fn(Page, Frame) -> bool,
    ) {
        if leaf.devices().get() > 0 {
            self.take_some_devices::<M>(leaf, pages, wanted);
        }
    }

    #[cold]
    fn take_some_devices<M: Machine>(
        &mut self,
        leaf: &Leaf,
        pages: Pages,
        wanted: impl Fn(Page, Frame) -> bool,
    ) {
        for (page, entry, _) in
            leaf.devices_in::<M::Format>(pages).filter(|&(page, _, frame)| wanted(page, frame))
        {
            if !is_mutant!("devices_no_flush") {
                self.flush(leaf, page);
            }
            entry.store(ABSENT, Relaxed);
            leaf.devices().set(leaf.devices().get() - 1);
            leaf.present().set(leaf.present().get() - 1);
            self.objects += 1;
        }
    }

    /// Moves a present page's frame to another entry, which must be absent. Both leaves must be locked,
    /// and no other operation may be flushing them. The frame must not be shared, unless it belongs to an
    /// object. Apart from moves, the gather may contain only removed pages of device memory.
    pub(crate) fn relocate<M: Machine>(
        &mut self,
        (leaf, page): (&Leaf, Page),
        (to, new): (&Leaf, Page),
        frame: Frame,
    ) {
        let (Some(from_entries), Some(to_entries)) = (leaf.table(), to.table()) else {
            unreachable!("both leaves have tables");
        };
        from_entries[leaf.slot(page)].store(ABSENT, Relaxed);
        leaf.present().set(leaf.present().get() - 1);
        self.flush(leaf, page);
        // The new entry stays not-present until the old translation has been flushed.
        to_entries[to.slot(new)].store(M::Format::flush_pending(frame), Relaxed);
        to.present().set(to.present().get() + 1);
        to.flush_pending().set(to.flush_pending().get() + 1);
        // SAFETY: the leaf is locked, and no other operation is flushing it.
        self.leaves = unsafe { to.begin_flush(self.leaves) };
        let arriving = self.arriving.get_or_insert(Pages::new(new, 1));
        (arriving.start, arriving.end) = (arriving.start.min(new), arriving.end.max(new + 1));
    }

    /// Makes moved pages present at their destination.
    fn complete_moves<M: Machine>(&self, cpu: &Cpu<'_, M>, leaf: &Leaf, pages: Pages) {
        let _guard = cpu.pin();
        let _locked = LockedLeaf::new(leaf, cpu.platform());
        let pages = pages.and(leaf.span());
        let Some(entries) = leaf.table() else { unreachable!("pending entries need a table") };
        for page in pages.iter() {
            let entry = &entries[leaf.slot(page)];
            let Entry::FlushPending(frame) = M::Format::read(entry.load(Relaxed), 0) else {
                continue;
            };
            let attributes =
                leaf.attributes(page).expect("a moved page is mapped at its destination");
            let mut protection = attributes.protection;
            if cpu.machine().frame_meta(frame).is_object() {
                // Map the page read-only. The next write fault decides whether the page becomes writable.
                protection = protection.difference(Protection::WRITE);
            }
            if protection.contains(Protection::WRITE) {
                cpu.machine().frame_meta(frame).set_written();
            }
            // The old entry may not have allowed execution: `protect` leaves this to the next fault.
            if protection.contains(Protection::EXECUTE) && !is_mutant!("moves_unprepared") {
                cpu.machine().prepare_code(frame);
            }
            // Relaxed: the full fence of the shootdown comes between the stores to the page and this store.
            entry.store(M::Format::page_or_prot_none(frame, protection), Relaxed);
            leaf.flush_pending().set(leaf.flush_pending().get() - 1);
        }
    }

    /// Releases the flush-pending frames of a leaf. Returns their number.
    ///
    /// # Safety
    /// Flush-pending entries within the gather's pages must belong to the gather, and all CPUs must have
    /// flushed them.
    unsafe fn release_pending<M: Machine>(&self, cpu: &Cpu<'_, M>, leaf: &Leaf) -> u64 {
        let mut count = 0;
        let _locked = LockedLeaf::new(leaf, cpu.platform());
        let pages = self.pages.and(leaf.span());
        let entries = leaf.table().filter(|_| leaf.flush_pending().get() > 0);
        for entry in entries.into_iter().flat_map(|entries| &entries[leaf.slots(pages)]) {
            if let Entry::FlushPending(frame) = M::Format::read(entry.load(Relaxed), 0) {
                entry.store(ABSENT, Relaxed);
                leaf.flush_pending().set(leaf.flush_pending().get() - 1);
                leaf.present().set(leaf.present().get() - 1);
                // SAFETY: the entry was cleared above, and all CPUs have flushed it, as the caller
                // guarantees.
                unsafe { release(cpu, frame) };
                count += 1;
            }
        }
        count
    }

    /// Write-protects the present pages of a leaf for a fork, and shares their frames. Calls `share` with the
    /// slot of each page and the entry that the copy gets. A pinned private frame is not shared: `duplicate`
    /// gets the page, the frame and the protection, and returns a new frame with the same content. The leaf
    /// must be locked, and no other operation may be flushing it.
    pub(crate) fn share<M: Machine>(
        &mut self,
        machine: &M,
        leaf: &Leaf,
        mut duplicate: impl FnMut(Page, Frame, Protection) -> Frame,
        share: impl Fn(usize, u64),
    ) {
        // Device memory is not copied: a fault makes it present in the copy.
        let has_pages = leaf.present().get() > leaf.devices().get();
        let Some(entries) = leaf.table().filter(|_| has_pages) else { return };
        leaf.fill(machine);
        if leaf.is_large() {
            // The frames of a large page cannot be shared. `flush` splits the page.
            self.flush(leaf, leaf.span().start);
        }
        for (slot, entry) in entries.iter().enumerate() {
            let old = M::Format::read(entry.load(Relaxed), 0);
            let (frame, protection) = match old {
                Entry::Page { frame, protection, .. } => (frame, protection),
                Entry::ProtNone(frame) => (frame, Protection::NONE),
                _ => continue,
            };
            if is_pinned(machine.frame_meta(frame)) && !is_mutant!("shares_pinned") {
                let page = leaf.span().start + slot as u64;
                let own = duplicate(page, frame, protection);
                share(slot, M::Format::page_or_prot_none(own, protection));
                continue;
            }
            let new = match old {
                // An object's frame stays writable in both spaces if the mapping is shared.
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
                        // No mutant weakens this Release: only a model of a fork on an asymmetric platform
                        // would notice, and this model would take minutes.
                        entry.store(new, Release);
                        if !is_mutant!("fork_no_flush") {
                            self.flush(leaf, leaf.span().start + slot as u64);
                        }
                    }
                    new
                }
                _ => {
                    machine.frame_meta(frame).share();
                    M::Format::prot_none(frame)
                }
            };
            share(slot, new);
        }
    }

    /// Restricts the permissions of the present pages among `pages`. Removes present pages of device memory.
    /// `allowed` gets a page, its frame and its current protection, and returns the protection that is still
    /// permitted. The leaf must be locked, and no other operation may be flushing it.
    #[inline]
    pub(crate) fn protect<M: Machine>(
        &mut self,
        machine: &M,
        leaf: &Leaf,
        pages: Pages,
        allowed: impl Fn(Page, Frame, Protection) -> Protection,
    ) {
        leaf.fill(machine);
        self.take_devices::<M>(leaf, pages, |_, _| true);
        for Present { page, entry, frame, protection: old } in leaf.present_in::<M::Format>(pages) {
            // No permission is added here: the next fault does that.
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

    /// Reports the usage of the present and swapped pages among `pages`, in ascending order, and clears the
    /// flags in `clear`. The leaf must be locked as for [`take`](TlbGather::take).
    pub(crate) fn take_usage<M: Machine>(
        &mut self,
        machine: &M,
        leaf: &Leaf,
        pages: Pages,
        clear: Usage,
        mut with: impl FnMut(Page, Usage),
    ) {
        leaf.fill(machine);
        let mut swapped = leaf.swapped_in::<M::Format>(pages).peekable();
        for Present { page, entry, frame, .. } in leaf.present_in::<M::Format>(pages) {
            while let Some(before) = swapped.next_if(|swapped| swapped.page < page) {
                take_swapped_usage::<M>(&before, clear, &mut with);
            }
            let meta = machine.frame_meta(frame);
            let old = entry.load(Relaxed);
            let mut usage = Usage::empty();
            let mut allowed = Protection::NONE;
            if let Entry::Page { protection, accessed, .. } = M::Format::read(old, 0) {
                allowed = protection;
                usage.set(Usage::ACCESSED, accessed);
            }
            // No entry allows writes to a frame that is shared copy-on-write.
            let is_writable = allowed.contains(Protection::WRITE);
            let is_private = !meta.is_object();
            let is_pinned = meta.is_pinned();
            let is_dirty = is_writable || is_pinned || is_private && meta.is_written();
            usage.set(Usage::DIRTY, is_dirty);
            with(page, usage);
            let mut cleared = usage & clear;
            if is_pinned {
                // The device may write to the page at any time, so the page stays dirty.
                cleared.remove(Usage::DIRTY);
            }
            if cleared.contains(Usage::DIRTY) {
                allowed = allowed.difference(Protection::WRITE);
                if is_private {
                    meta.set_clean();
                }
            }
            let mut new = M::Format::page_or_prot_none(frame, allowed);
            let is_accessed = (usage - clear).contains(Usage::ACCESSED);
            if allowed.contains(Protection::READ) && !is_accessed {
                new = M::Format::clear_accessed(new);
            }
            if new != old {
                // Release, as for every entry that other CPUs may read in page walks.
                entry.store(new, Release);
                if !is_mutant!("usage_no_flush") {
                    self.flush(leaf, page);
                }
            }
        }
        swapped.for_each(|swapped| take_swapped_usage::<M>(&swapped, clear, &mut with));
    }

    /// Adds the pages that [linger](Leaf::flush_pending_in) in a leaf. The leaf must be locked, and no other
    /// operation may be flushing it.
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
            self.is_forgotten &= tree.is_over(ticket);
        }
    }

    /// Completes a lazy unmap without a shootdown, if the gather is lazy and has only lingering frames:
    /// flushes this CPU's TLB, and returns the ticket. The frames stay allocated until each CPU has had a
    /// tick that is later than the ticket. In all other cases, returns `None`, and the caller must
    /// [finish](TlbGather::finish) the gather.
    pub(crate) fn linger<M: Machine>(&self, tree: &Tree, cpu: &Cpu<'_, M>) -> Option<u64> {
        let has_others = self.is_shared || self.objects > 0;
        let is_much = self.first.is_some();
        let has_others = is_much || self.has_split || has_others && !is_mutant!("objects_linger");
        if self.ticks.is_none() || self.leaves.is_none() || has_others {
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
            // SAFETY: this gather began the flush. Operations that could free the leaf wait for the end of
            // the flush.
            unsafe { leaves = leaf.as_ref().end_flush() };
        }
        Some(self.ticket)
    }

    /// Shoots down all entries, and frees the frames. The caller must not have locked any node.
    ///
    /// # Safety
    /// The frames must not be in any table, except for flush-pending entries of this gather.
    #[inline]
    pub(crate) unsafe fn finish<M: Machine>(self, tree: &Tree, cpu: &Cpu<'_, M>) {
        if !self.pages.is_empty() {
            // SAFETY: the caller guarantees what `flush_all` requires.
            unsafe { self.flush_all(tree, cpu) };
        }
    }

    /// # Safety
    /// As for [`finish`](TlbGather::finish).
    unsafe fn flush_all<M: Machine>(&self, tree: &Tree, cpu: &Cpu<'_, M>) {
        let flush = || tree.shoot_down(cpu, Flush::Range(self.pages));
        let is_left_out =
            is_mutant!("remove_no_flush", "flush_first", "flush_after_leaves", "flush_last");
        if !self.is_forgotten && !is_left_out {
            flush();
        }
        let (mut leaves, mut count) = (self.leaves, self.objects);
        while let Some(leaf) = leaves {
            // SAFETY: this gather began the flush. Operations that could free the leaf wait for the end of
            // the flush.
            unsafe {
                let leaf = leaf.as_ref();
                // Nobody else changes this count, because other operations wait for the end of the flush.
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
            // SAFETY: the frame is in no table, and all CPUs have flushed it.
            unsafe { cpu.free(frame) };
        }
        let mut next = self.large;
        while let Some(first) = next {
            count += ENTRIES as u64;
            next = cpu.machine().frame_meta(first).take_next();
            // SAFETY: the frames are in no table, and all CPUs have flushed them.
            unsafe { cpu.machine().free_large(first) };
        }
        if is_mutant!("flush_last") {
            flush();
        }
        tree.account.sub_resident(cpu.number(), count);
    }
}

/// Drops an entry's reference to its frame, and frees the frame if this was the last reference.
///
/// # Safety
/// The entry must have been cleared, and no CPU may access the frame through it.
pub(crate) unsafe fn release<M: Machine>(cpu: &Cpu<'_, M>, frame: Frame) {
    if cpu.machine().frame_meta(frame).release() && !is_mutant!("shared_frames_stay") {
        // SAFETY: this was the last reference, so no entry maps the frame.
        unsafe { cpu.free(frame) };
    }
}

/// Reports the usage of a swapped page, and clears the flags in `clear`. The page's leaf must be locked.
fn take_swapped_usage<M: Machine>(
    swapped: &Swapped<'_>,
    clear: Usage,
    with: &mut impl FnMut(Page, Usage),
) {
    let &Swapped { page, entry, slot, dirty } = swapped;
    let mut usage = Usage::SWAPPED;
    usage.set(Usage::DIRTY, dirty);
    with(page, usage);
    if (usage & clear).contains(Usage::DIRTY) {
        // Relaxed: the hardware ignores the entry, and the lock publishes it to other CPUs.
        entry.store(M::Format::swapped(slot, false), Relaxed);
    }
}
