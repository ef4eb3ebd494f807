//! The page fault handler.

use core::sync::atomic::Ordering::{Relaxed, Release};

use knee_sync::shim::{AtomicU64, is_mutant, order};

use super::Space;
use crate::backing::object_core::{Device, Found, PinnedObject};
use crate::backing::{Backing, Sharing};
use crate::cpu::{Cpu, PerCpuPool};
use crate::error::{Fault, OutOfMemory};
use crate::machine::format::{Entry, FaultFlush, Format};
use crate::machine::{Flush, Machine, table_at};
use crate::needed::Needed;
use crate::page::{Frame, PAGE, Page, Pages, Protection};
use crate::swap::Transfer;
use crate::transaction::gather::release;
use crate::tree::attributes::Attributes;
use crate::tree::gigabyte::GIGABYTE;
use crate::tree::lock::{Locked, LockedLeaf, lock};
use crate::tree::node::{Branch, Leaf, Link, NodeRef, first_leaf};
use crate::tree::update::{add_child, add_table};

/// The state in which a fault found the PTE.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Before {
    /// Not present. If this fault itself made the PTE flush-pending, all CPUs have since flushed the old PTE.
    Absent,
    /// Present, without the permission for the access.
    Less,
    /// Present, with the permission for the access: the CPU faulted on a stale TLB entry.
    Enough,
}

/// The outcome of one attempt to handle a fault.
pub(super) enum Step<'a, 'm, M: Machine> {
    /// `Ok` if the PTE is up to date; an error if the access is invalid.
    Done(Result<(), Fault>),
    /// The PTE already permitted the access.
    Spurious,
    /// This many pages have become present.
    MadePresent(u64),
    /// The large page or the table of this leaf was removed from the parent's entry: flush, and retry.
    Flush(&'a Leaf, Flush),
    /// This leaf is being flushed, or a fork is in progress: wait until neither is the case, then retry.
    Wait(&'a Leaf),
    /// Another CPU [delays](Tree::delay_large_pages) large pages: retry afterwards.
    WaitLarge,
    /// Another CPU is making or removing this page of 1 GiB: retry afterwards.
    WaitFlush(&'a Branch),
    /// Flush this branch, and then make it a page of 1 GiB with this entry.
    MakeGigabyte(&'a Branch, u64),
    /// The frame is shared: copy it.
    BreakCow(Shared<'a>),
    /// The object's pager must read this page of the object before the next attempt.
    PageIn(PinnedObject<'m, M>, u64),
    /// The page must be read from swap before the next attempt.
    SwapIn(Transfer),
}

/// A shared frame that a copy will replace, and whose PTE is flush-pending.
pub(super) struct Shared<'a> {
    leaf: &'a Leaf,
    frame: Frame,
    /// Whether TLBs may have entries for the frame.
    is_known: bool,
    attributes: Attributes,
}

impl<'m, M: Machine> Space<'m, M> {
    /// Handles a page fault: makes `page` present for an `access` by this CPU, or reports why the access is
    /// invalid.
    ///
    /// If this CPU may have cached the page's old PTE, that PTE is [flushed](Machine::flush_local) before
    /// `fault` returns `Ok`, so the program can retry the access. If a RISC-V CPU has cached that a table was
    /// absent, it faults once more, and that fault flushes the tables as well. If another CPU has cached the
    /// old PTE, it also faults once more.
    ///
    /// # Errors
    /// See [`Fault`].
    #[inline]
    pub fn fault(&self, cpu: &Cpu<'m, M>, page: Page, access: Protection) -> Result<(), Fault> {
        let before = self.make_present(cpu, page, access)?;
        let page = Pages::new(page, 1);
        let flush = match (M::FAULT_FLUSH, before) {
            (FaultFlush::Never, _) | (FaultFlush::IfPresent, Before::Absent) => return Ok(()),
            // If a table was added as well, and a CPU has cached that it was absent, the CPU faults once
            // more.
            (_, Before::Absent | Before::Less) => Flush::Range(page),
            (_, Before::Enough) if is_mutant!("fault_keeps_tables") => Flush::Range(page),
            // The stale entry may be a non-leaf entry that another CPU has changed.
            (_, Before::Enough) => Flush::Tables(page),
        };
        if !is_mutant!("fault_no_flush") {
            // SAFETY: a `Cpu` never leaves its CPU, so this runs on CPU `cpu.number()`.
            unsafe { self.machine.flush_local(cpu.number(), self.number(), flush) };
        }
        Ok(())
    }

    /// Makes `page` present for `access`. The CPU may still have the old PTE cached.
    pub(super) fn make_present(
        &self,
        cpu: &Cpu<'m, M>,
        page: Page,
        access: Protection,
    ) -> Result<Before, Fault> {
        self.check_cpu(cpu);
        if !self.pages().contains(page) {
            return Err(Fault::Unmapped);
        }
        self.drive_fault(cpu, page, true, |pool| self.fault_once(page, access, pool))
    }

    /// Makes this space the origin of the present anonymous pages in `pages`. Copies shared pages that
    /// have another origin. If `alone` is true, copies all shared pages.
    pub(crate) fn collapse_to_self(
        &self,
        cpu: &Cpu<'m, M>,
        mut pages: Pages,
        alone: bool,
    ) -> Result<(), OutOfMemory> {
        while let Some(own) = self.first_leaf_span(cpu, pages) {
            pages.start = own.end;
            let result = own.iter().try_for_each(|page| self.collapse(cpu, page, alone).map(drop));
            result.map_err(|_: Fault| OutOfMemory)?;
        }
        Ok(())
    }

    /// Like [`collapse_to_self`](Space::collapse_to_self), but for one page.
    pub(super) fn collapse(
        &self,
        cpu: &Cpu<'m, M>,
        page: Page,
        alone: bool,
    ) -> Result<Before, Fault> {
        self.drive_in_leaf(cpu, page, |leaf, pool| self.collapse_in(leaf, page, alone, pool))
    }

    /// Repeats `step` until the fault is handled. Between attempts, refills the pool, waits, or has the
    /// pager read a page. If `takes_page` is true and memory allows, the pool has a zeroed page before each
    /// attempt.
    #[inline]
    pub(super) fn drive_fault<'a>(
        &'a self,
        cpu: &Cpu<'m, M>,
        page: Page,
        takes_page: bool,
        mut step: impl FnMut(&mut PerCpuPool) -> Result<Step<'a, 'm, M>, Needed>,
    ) -> Result<Before, Fault> {
        let mut turn = None;
        loop {
            if takes_page {
                cpu.refill_zero_page();
            }
            let next = {
                let _guard = cpu.pin();
                let next = cpu.with_pool(&mut step);
                if let Ok(Step::Wait(leaf)) = next {
                    let fork_lock = &self.tree().fork_lock;
                    if fork_lock.is_locked() {
                        turn.get_or_insert_with(|| fork_lock.wait_ticket());
                    }
                    let waits = || leaf.is_flushing() || fork_lock.is_locked();
                    // SAFETY: a `Cpu` never leaves its CPU, and this CPU holds no locks here.
                    unsafe { self.machine.wait_while(cpu.number(), waits) };
                    continue;
                }
                if let Ok(Step::WaitFlush(branch)) = next {
                    // SAFETY: as above.
                    unsafe { self.machine.wait_while(cpu.number(), || branch.is_flushing()) };
                    continue;
                }
                turn = None;
                next
            };
            match next {
                Ok(Step::Done(result)) => return result.map(|()| Before::Less),
                Ok(Step::Spurious) => return Ok(Before::Enough),
                Ok(Step::MadePresent(count)) => {
                    self.tree().account.add_resident(cpu.number(), count);
                    return Ok(Before::Absent);
                }
                Ok(Step::WaitLarge) => {
                    let tree = self.tree();
                    // SAFETY: a `Cpu` never leaves its CPU, and this CPU holds no locks here.
                    unsafe { self.machine.wait_while(cpu.number(), || tree.delays_large_pages()) };
                }
                // SAFETY: `fault_in` or `make_large` began the flush.
                Ok(Step::Flush(leaf, flush)) => unsafe { self.complete_flush(cpu, leaf, flush) },
                Ok(Step::PageIn(object, index)) => object.page_in(cpu, index)?,
                Ok(Step::SwapIn(transfer)) => {
                    // The page has become present with the permissions that this fault has checked.
                    if self.swap_in(cpu, page, transfer)? {
                        return Ok(Before::Absent);
                    }
                }
                Ok(Step::MakeGigabyte(branch, entry)) => {
                    self.make_gigabyte(cpu, branch, entry);
                    self.tree().account.add_resident(cpu.number(), GIGABYTE);
                    return Ok(Before::Absent);
                }
                Ok(Step::Wait(_) | Step::WaitFlush(_)) => unreachable!("handled above"),
                Ok(Step::BreakCow(shared)) => {
                    self.break_cow(cpu, page, shared);
                    // All CPUs flushed the old page while the PTE was not present.
                    return Ok(Before::Absent);
                }
                Err(needed) => cpu.refill(needed)?,
            }
        }
    }

    /// Like [`drive_fault`](Space::drive_fault), but `step` gets the leaf of `page`, locked. If there is no
    /// leaf, there is nothing to do. Allocates only what `step` needs.
    pub(super) fn drive_in_leaf<'a>(
        &'a self,
        cpu: &Cpu<'m, M>,
        page: Page,
        mut step: impl FnMut(&'a Leaf, &mut PerCpuPool) -> Result<Step<'a, 'm, M>, Needed>,
    ) -> Result<Before, Fault> {
        self.drive_fault(cpu, page, false, |pool| {
            let root = NodeRef::Branch(self.tree().root());
            let Some(leaf) = first_leaf(root, Pages::new(page, 1)) else {
                return Ok(Step::Done(Ok(())));
            };
            let _locked = LockedLeaf::new(leaf, cpu.platform());
            match leaf.is_detached() {
                true => Err(Needed::Retry),
                false => step(leaf, pool),
            }
        })
    }

    /// Finds the first leaf that overlaps `pages`, and returns the overlap.
    pub(super) fn first_leaf_span(&self, cpu: &Cpu<'m, M>, pages: Pages) -> Option<Pages> {
        let _guard = cpu.pin();
        let leaf = first_leaf(NodeRef::Branch(self.tree().root()), pages)?;
        Some(leaf.span().and(pages))
    }

    /// One attempt at [`collapse`](Space::collapse), in a locked leaf.
    fn collapse_in<'a>(
        &self,
        leaf: &'a Leaf,
        page: Page,
        alone: bool,
        pool: &mut PerCpuPool,
    ) -> Result<Step<'a, 'm, M>, Needed> {
        let done = Ok(Step::Done(Ok(())));
        let Some(entries) = leaf.table() else { return done };
        if self.tree().fork_lock.is_locked() {
            return Ok(Step::Wait(leaf));
        }
        if leaf.is_large() {
            // This space is the origin of all its large pages, and no page of them is shared.
            return done;
        }
        let entry = &entries[leaf.slot(page)];
        let frame = match M::Format::read(entry.load(Relaxed), 0) {
            Entry::FlushPending(_) if leaf.is_flushing() => return Ok(Step::Wait(leaf)),
            Entry::Page { frame, .. } | Entry::ProtNone(frame) => frame,
            // There is no page to collapse: a page that was unmapped lazily is no longer mapped, even if its
            // entry is still flush-pending.
            _ => return done,
        };
        let (meta, own) = (self.machine.frame_meta(frame), self.lineage.own());
        if meta.is_object() || meta.origin().0 == own && !(alone && meta.is_shared()) {
            return done;
        }
        if !meta.is_shared() {
            meta.set_origin(own, page);
            return done;
        }
        if leaf.is_flushing() {
            return Ok(Step::Wait(leaf));
        }
        pool.frames.has_page()?;
        let attributes = leaf.attributes(page).expect("a present page is mapped");
        let shared = Shared { leaf, frame, is_known: true, attributes };
        // SAFETY: the leaf is locked, and no flush of it is in progress.
        Ok(unsafe { self.begin_cow_break(entry, shared) })
    }

    /// Makes the PTE of a shared frame flush-pending, so that a copy can replace the frame.
    ///
    /// # Safety
    /// The leaf must be locked, and no flush of it may be in progress.
    unsafe fn begin_cow_break<'a>(&self, entry: &AtomicU64, shared: Shared<'a>) -> Step<'a, 'm, M> {
        let Shared { leaf, frame, is_known, .. } = shared;
        // All CPUs must flush the old page before any of them can access the copy. Otherwise one CPU could
        // see another CPU's write to the copy while a third CPU still reads the old page.
        entry.store(M::Format::flush_pending(frame), Relaxed);
        leaf.flush_pending().set(leaf.flush_pending().get() + 1);
        leaf.present().set(leaf.present().get() + u32::from(!is_known));
        // SAFETY: the caller guarantees that the leaf is locked and that no flush of it is in progress.
        unsafe { leaf.begin_flush(None) };
        Step::BreakCow(shared)
    }

    /// Replaces a shared frame, whose PTE `begin_cow_break` has made flush-pending, with a copy.
    #[inline(never)]
    fn break_cow(&self, cpu: &Cpu<'m, M>, page: Page, shared: Shared<'_>) {
        let Shared { leaf, frame, is_known, attributes } = shared;
        let flush = || self.tree().shoot_down(cpu, Flush::Range(Pages::new(page, 1)));
        if is_known {
            if !is_mutant!("unshare_no_flush", "unshare_flush_last") {
                flush();
            }
        } else {
            self.tree().account.add_resident(cpu.number(), 1);
        }
        let own = cpu.with_pool(|pool| pool.frames.page());
        let own = own.expect("this CPU's pool has a reserved page");
        let is_private = !self.machine.frame_meta(frame).is_object();
        if is_private {
            let (from, to) = (self.machine.address(frame), self.machine.address(own));
            // SAFETY: the new frame is ours. Nobody frees the old frame, because the flush-pending PTE holds
            // a reference to the frame until we release this reference below. Nobody writes to a private
            // frame that is shared copy-on-write.
            unsafe { from.copy_to_nonoverlapping(to, PAGE) };
        } else {
            // SAFETY: the new frame is ours. The old frame stays allocated: an operation that takes it out of
            // the object waits until the leaf is flushed. Programs with a shared mapping of the object may
            // write to the old frame at the same time, so `copy_words` reads the frame with atomics. The
            // programs write with atomics as well, or in machine code, which is outside of Rust's memory
            // model (see [`Machine`]).
            unsafe { copy_words(self.machine, frame, own) };
        }
        self.init_private(own, page, attributes.protection);
        leaf.lock(self.machine.epoch().platform());
        let entries = leaf.table().expect("the leaf has the entry's table");
        // Operations that change the leaf wait until its flush ends, so the PTE is unchanged. Release: a CPU
        // that finds the frame sees the copied content.
        let new = M::Format::page_or_prot_none(own, attributes.protection);
        entries[leaf.slot(page)].store(new, order!(Release, "copy_publish"));
        leaf.flush_pending().set(leaf.flush_pending().get() - 1);
        leaf.unlock();
        if is_mutant!("unshare_flush_last") {
            flush();
        }
        // SAFETY: `begin_cow_break` began the flush. The PTE no longer refers to the old frame, and all CPUs
        // have flushed their translations of this frame.
        unsafe {
            leaf.end_flush();
            if is_private && !is_mutant!("unshare_no_release") {
                release(cpu, frame);
            }
        }
    }

    fn fault_once(
        &self,
        page: Page,
        access: Protection,
        pool: &mut PerCpuPool,
    ) -> Result<Step<'_, 'm, M>, Needed> {
        let mut branch = self.tree().root();
        let leaf = loop {
            match branch.child(branch.slot(page)) {
                Some(NodeRef::Branch(child)) => branch = child,
                Some(NodeRef::Leaf(leaf)) => break leaf,
                None => return self.fault_above(page, access, pool),
            }
        };
        let _locked = LockedLeaf::new(leaf, self.machine.epoch().platform());
        self.fault_in(leaf, page, access, pool)
    }

    /// Handles a fault where there is no leaf: if the page is mapped, adds the leaf or a branch on the
    /// path to it.
    // If this were inlined, a fault on a page of a known leaf would take 9 more instructions.
    #[cold]
    #[inline(never)]
    fn fault_above(
        &self,
        page: Page,
        access: Protection,
        pool: &mut PerCpuPool,
    ) -> Result<Step<'_, 'm, M>, Needed> {
        let platform = self.machine.epoch().platform();
        let mut branch = self.tree().root();
        let mut above = None;
        loop {
            // Search this branch's extents before its child: when extents move down, they are added to the
            // child before they are removed from the branch.
            above = branch.find(page).or(above);
            match branch.child(branch.slot(page)) {
                Some(NodeRef::Branch(child)) => branch = child,
                Some(NodeRef::Leaf(_)) => return Err(Needed::Retry),
                None => {
                    let Some(attributes) = above else {
                        return Ok(Step::Done(Err(Fault::Unmapped)));
                    };
                    if let Err(fault) = allowed(attributes, access) {
                        return Ok(Step::Done(Err(fault)));
                    }
                    let is_large = attributes.backing.is_none() && self.has_large_pages();
                    // Ask before locking. Only memory of an object may get a page of 1 GiB instead of a leaf.
                    if branch.level() == 1 && attributes.backing.is_none() {
                        pool.has_leaf(is_large)?;
                    }
                    let locked =
                        Locked { top: NodeRef::Branch(branch), pages: Pages::new(page, 1) };
                    lock::<M>(locked.top, locked.pages, platform);
                    let is_free = branch.child(branch.slot(page)).is_none();
                    if branch.is_detached() || !is_free && !is_mutant!("adds_twice") {
                        return Err(Needed::Retry);
                    }
                    if branch.level() > 1 {
                        add_child(self.machine, branch, page, &mut pool.tree)?;
                        return Err(Needed::Retry);
                    }
                    if let Some(step) = self.in_gigabyte(branch, page, access) {
                        return Ok(step);
                    }
                    pool.has_leaf(is_large)?;
                    return self.fault_in_new(branch, page, access, is_large, pool);
                }
            }
        }
    }

    /// Adds a leaf to a locked branch. If `is_large`, tries to handle the fault with a large page. Otherwise,
    /// asks for a retry.
    fn fault_in_new<'a>(
        &self,
        branch: &'a Branch,
        page: Page,
        access: Protection,
        is_large: bool,
        pool: &mut PerCpuPool,
    ) -> Result<Step<'a, 'm, M>, Needed> {
        add_child(self.machine, branch, page, &mut pool.tree)?;
        if is_large
            && (!self.tree().fork_lock.is_locked() || is_mutant!("new_leaf_while_forking"))
            && let Some(NodeRef::Leaf(leaf)) = branch.child(branch.slot(page))
            && let Some(step) = self.make_large(leaf, access, pool)?
        {
            return Ok(step);
        }
        Err(Needed::Retry)
    }

    #[inline]
    fn fault_in<'a>(
        &self,
        leaf: &'a Leaf,
        page: Page,
        access: Protection,
        pool: &mut PerCpuPool,
    ) -> Result<Step<'a, 'm, M>, Needed> {
        if leaf.is_detached() {
            return Err(Needed::Retry);
        }
        if self.tree().fork_lock.is_locked() && !is_mutant!("fault_while_forking") {
            return Ok(Step::Wait(leaf));
        }
        let Some(attributes) = leaf.attributes(page) else {
            return Ok(Step::Done(Err(Fault::Unmapped)));
        };
        let mut protection = attributes.protection;
        if let Err(fault) = allowed(attributes, access) {
            return Ok(Step::Done(Err(fault)));
        }
        let entries = match leaf.table() {
            Some(entries) if leaf.has_entries() => entries,
            _ => return self.link(leaf, page, access, pool),
        };
        let entry = &entries[leaf.slot(page)];
        let is_write = access.contains(Protection::WRITE);
        // SAFETY: the leaf is locked, so the page stays mapped by its backing.
        let backing = unsafe { Backing::of(attributes) };
        if let Some(backing) = backing
            && let Some(device) = &backing.object().device
        {
            if leaf.has_no_content()
                && let Some(step) = self.make_large(leaf, access, pool)?
            {
                return Ok(step);
            }
            let index = backing.index(page);
            let step = match index < backing.object().len() {
                true => map_device::<M>(leaf, entry, device, index, protection, access),
                false => Step::Done(Err(Fault::BeyondEnd)),
            };
            return Ok(step);
        }
        let mut old = Protection::NONE;
        let (frame, is_known) = match M::Format::read(entry.load(Relaxed), 0) {
            Entry::FlushPending(_) if !is_mutant!("fault_while_leaving") => {
                return Ok(Step::Wait(leaf));
            }
            // Another CPU has handled this fault, or this CPU has a stale TLB entry.
            Entry::Page { protection, accessed: true, .. } if protection.contains(access) => {
                if leaf.is_large() {
                    // `reclaim` may have cleared the accessed bit of the large page.
                    leaf.set_large_accessed::<M::Format>(true);
                }
                return Ok(found::<M>());
            }
            Entry::Page { frame, protection, .. } => {
                old = protection;
                (frame, true)
            }
            Entry::ProtNone(frame) => (frame, true),
            Entry::Swapped { slot, .. } => return self.begin_swap_in(slot, pool),
            _ => match backing {
                None => {
                    if leaf.has_no_content()
                        && self.has_large_pages()
                        && let Some(step) = self.make_large(leaf, access, pool)?
                    {
                        return Ok(step);
                    }
                    let frame = pool.frames.page()?;
                    self.init_private(frame, page, protection);
                    publish::<M>(entry, frame, protection);
                    leaf.present().set(leaf.present().get() + 1);
                    return Ok(Step::MadePresent(1));
                }
                Some(backing) => {
                    let (object, index) = (backing.object(), backing.index(page));
                    let PerCpuPool { blocks, frames, .. } = pool;
                    match object.find(self.machine, index, blocks, frames)? {
                        Found::Frame(frame) => (frame, false),
                        Found::Away => {
                            return Ok(Step::PageIn(
                                PinnedObject::new(object, self.machine),
                                index,
                            ));
                        }
                        Found::Fault(fault) => return Ok(Step::Done(Err(fault))),
                    }
                }
            },
        };
        // If the PTE allows reads but not writes, the page may be clean: keep the PTE read-only until a
        // store.
        if !is_write && old & Protection::READ_WRITE == Protection::READ {
            protection = protection.difference(Protection::WRITE);
        }
        let meta = self.machine.frame_meta(frame);
        let shared = backing.filter(|backing| backing.sharing == Sharing::Shared);
        if let Some(shared) = shared {
            // An object with a pager has to know its dirty pages. So a read fault maps the page without write
            // permission, and the first store faults, so that the fault handler can mark the page dirty.
            if shared.object().has_pager() {
                if !is_write {
                    // Keep the write permission of an existing PTE: if we removed it without a shootdown,
                    // other CPUs could still use it.
                    if !old.contains(Protection::WRITE) {
                        protection = protection.difference(Protection::WRITE);
                    }
                } else if shared.object().has(shared.index(page), frame) {
                    meta.set_dirty();
                } else {
                    return Ok(Step::Done(Err(Fault::Retry)));
                }
            }
        } else if meta.is_object() || meta.is_shared() && !is_mutant!("writes_to_shared") {
            if is_write {
                if leaf.is_flushing() && !is_mutant!("unshare_while_flushing") {
                    return Ok(Step::Wait(leaf));
                }
                // The copy needs a page of the pool, and `find` may have taken the last one for the object.
                pool.frames.has_page()?;
                let shared = Shared { leaf, frame, is_known, attributes };
                // SAFETY: the leaf is locked, and no flush of it is in progress.
                return Ok(unsafe { self.begin_cow_break(entry, shared) });
            }
            protection = protection.difference(Protection::WRITE);
        }
        if leaf.is_large() && !is_mutant!("changes_part_of_large") {
            if leaf.is_flushing() {
                return Ok(Step::Wait(leaf));
            }
            // SAFETY: the leaf is locked, and no flush of it is in progress.
            unsafe { leaf.begin_flush(None) };
            return Ok(Step::Flush(leaf, Flush::Range(leaf.span())));
        }
        if protection.contains(Protection::WRITE) {
            meta.set_written();
        }
        let is_new_code =
            protection.contains(Protection::EXECUTE) && !old.contains(Protection::EXECUTE);
        if is_new_code && !is_mutant!("fault_unprepared") {
            self.machine.prepare_code(frame);
        }
        publish::<M>(entry, frame, protection);
        if is_known {
            let flushes = !matches!(M::FAULT_FLUSH, FaultFlush::Never);
            let is_spurious = flushes && old.contains(access);
            return Ok(if is_spurious { Step::Spurious } else { Step::Done(Ok(())) });
        }
        leaf.present().set(leaf.present().get() + 1);
        Ok(Step::MadePresent(1))
    }

    /// Handles a fault in a leaf whose table contains no entries: makes a large page, or puts the table into
    /// the parent's entry and asks for a retry. If there is a large page that denies the access, fills the
    /// table and asks for a retry.
    #[cold]
    fn link<'a>(
        &self,
        leaf: &'a Leaf,
        page: Page,
        access: Protection,
        pool: &mut PerCpuPool,
    ) -> Result<Step<'a, 'm, M>, Needed> {
        if leaf.link() == Link::Large {
            let entry = leaf.entry::<M::Format>(page);
            if let Entry::Page { protection, .. } = entry
                && protection.contains(access)
            {
                // `reclaim` may have cleared the accessed bit.
                leaf.set_large_accessed::<M::Format>(true);
                return Ok(found::<M>());
            }
            leaf.fill(self.machine);
            return Err(Needed::Retry);
        }
        if leaf.is_flushing() && !is_mutant!("links_while_flushing") {
            return Ok(Step::Wait(leaf));
        }
        if leaf.has_no_content()
            && let Some(step) = self.make_large(leaf, access, pool)?
        {
            return Ok(step);
        }
        add_table(self.machine, leaf, &mut pool.tree)?;
        Err(Needed::Retry)
    }

    /// Prepares a frame to be mapped at `page` as a private frame of this space. The content of the frame
    /// must be complete.
    #[inline]
    pub(super) fn init_private(&self, frame: Frame, page: Page, protection: Protection) {
        let meta = self.machine.frame_meta(frame);
        meta.set_origin(self.lineage.own(), page);
        // A new page counts as dirty: no backing store has its content.
        meta.set_written();
        if protection.contains(Protection::EXECUTE) && !is_mutant!("private_unprepared") {
            self.machine.prepare_code(frame);
        }
    }
}

/// The outcome of a fault if the entry already permits the access.
fn found<'a, 'm, M: Machine>() -> Step<'a, 'm, M> {
    match M::FAULT_FLUSH {
        FaultFlush::Never => Step::Done(Ok(())),
        _ => Step::Spurious,
    }
}

/// Stores the entry of a present page. Release: a CPU that finds the frame sees its content.
#[inline]
pub(super) fn publish<M: Machine>(entry: &AtomicU64, frame: Frame, protection: Protection) {
    let new = M::Format::page_or_prot_none(frame, protection);
    entry.store(new, order!(Release, "page_publish"));
}

/// Makes a page of device memory present in a locked leaf.
#[cold]
fn map_device<'a, 'm, M: Machine>(
    leaf: &'a Leaf,
    entry: &AtomicU64,
    device: &Device,
    index: u64,
    protection: Protection,
    access: Protection,
) -> Step<'a, 'm, M> {
    if !device.access.contains(access) {
        return Step::Done(Err(Fault::AccessDenied));
    }
    let protection = protection & device.access;
    match M::Format::read(entry.load(Relaxed), 0) {
        Entry::Absent if !protection.contains(Protection::READ) => return Step::Done(Ok(())),
        Entry::Absent => (),
        Entry::FlushPending(_) => return Step::Wait(leaf),
        // The entry allows the access, because `protect` removes entries of device memory.
        _ => return found::<M>(),
    }
    let new = M::Format::device(device.frame(index), protection, device.memory);
    // Relaxed: there is no content to publish.
    entry.store(new, Relaxed);
    leaf.devices().set(leaf.devices().get() + 1);
    leaf.present().set(leaf.present().get() + 1);
    Step::MadePresent(1)
}

/// Checks an access against the protection of a mapping.
#[inline]
pub(super) fn allowed(attributes: Attributes, access: Protection) -> Result<(), Fault> {
    match attributes.protection {
        Protection::GUARD => Err(Fault::Guard),
        protection if protection.contains(access) => Ok(()),
        _ => Err(Fault::AccessDenied),
    }
}

/// Copies a frame that may be written to concurrently. No word is torn, and each word of the copy gets a
/// value that the original word had at some moment during the call. A program that copied the page itself
/// would get no stronger guarantee.
///
/// # Safety
/// Both frames must belong to `machine`, and concurrent writes to them must be atomic.
#[inline(never)]
pub(super) unsafe fn copy_words<M: Machine>(machine: &M, from: Frame, to: Frame) {
    let [from, to] = [from, to].map(|frame| table_at(machine, frame));
    // SAFETY: a table is a frame of atomic words, for which any content is valid. The caller guarantees that
    // both frames belong to the machine and that concurrent writes are atomic.
    let (from, to) = unsafe { (from.as_ref(), to.as_ref()) };
    for (from, to) in from.iter().zip(to) {
        // Relaxed: the Release store of the PTE publishes the copy.
        to.store(from.load(Relaxed), Relaxed);
    }
}
