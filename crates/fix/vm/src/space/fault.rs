//! The handler of page faults.

use core::sync::atomic::Ordering::{Relaxed, Release};

use knee_sync::shim::{AtomicU64, is_mutant, order};

use super::Space;
use crate::backing::object_core::{Found, PinnedObject};
use crate::backing::{Backing, Sharing};
use crate::cpu::{Cpu, PerCpuPool};
use crate::error::{Fault, OutOfMemory};
use crate::machine::format::{Entry, FaultFlush, Format};
use crate::machine::{Flush, Machine, table_at};
use crate::needed::Needed;
use crate::page::{Frame, PAGE, Pages, Protection};
use crate::transaction::gather::release;
use crate::tree::attributes::Attributes;
use crate::tree::lock::{Locked, lock};
use crate::tree::node::{Leaf, NodeRef, first_leaf};
use crate::tree::update::{add_child, add_table};

/// What a fault has found in the entry of its page.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Before {
    /// No page, or one that no CPU may have cached.
    Absent,
    /// The page, which allowed less than the access.
    Less,
    /// The page, which allowed the access: the CPU has faulted by what it had cached.
    Enough,
}

/// The outcome of one attempt to handle a fault.
enum Step<'a, 'm, M: Machine> {
    /// The page is present, and allows what it may; or the access is invalid.
    Done(Result<(), Fault>),
    /// It was present, and allowed the access.
    Spurious,
    /// A page has become present.
    MadePresent,
    /// CPUs flush this leaf, or a fork is in progress: try again after that.
    Wait(&'a Leaf),
    /// Others have the page, too: copy it.
    BreakCow(Shared<'a>),
    /// Have the object's pager read this page, and try again.
    PageIn(PinnedObject<'m, M>, u64),
}

/// A page that is on its way out of an entry, to make room for a copy.
struct Shared<'a> {
    leaf: &'a Leaf,
    frame: Frame,
    /// CPUs may know it.
    is_known: bool,
    attributes: Attributes,
}

impl<'m, M: Machine> Space<'m, M> {
    /// Handles a page fault: makes a page present for an access of this CPU, or says why the access is invalid.
    ///
    /// When it returns `Ok`, the CPU has [flushed](Machine::flush_local) what its hardware may have cached of the page's old
    /// entry, so the program can try again. A RISC-V CPU that has cached that a table was missing faults once
    /// more, and then has that flushed as well. So does another CPU that has cached the old entry.
    ///
    /// # Errors
    /// See [`Fault`].
    #[inline]
    pub fn fault(&self, cpu: &Cpu<'m, M>, page: u64, access: Protection) -> Result<(), Fault> {
        let before = self.make_present(cpu, page, access)?;
        let page = Pages::new(page, 1);
        let flush = match (M::FAULT_FLUSH, before) {
            (FaultFlush::Never, _) | (FaultFlush::IfPresent, Before::Absent) => return Ok(()),
            // If a table has come as well, and the CPU has cached that there was none, it faults once more.
            (_, Before::Absent | Before::Less) => Flush::Range(page),
            (_, Before::Enough) if is_mutant!("fault_keeps_tables") => Flush::Range(page),
            // It may be an entry of a table above, which another CPU has changed.
            (_, Before::Enough) => Flush::Tables(page),
        };
        if !is_mutant!("fault_no_flush") {
            // SAFETY: a `Cpu` stays on its CPU.
            unsafe { self.machine.flush_local(cpu.number(), self.number(), flush) };
        }
        Ok(())
    }

    /// Makes a page present for this access. The CPU may still have cached the entry of before.
    pub(super) fn make_present(
        &self,
        cpu: &Cpu<'m, M>,
        page: u64,
        access: Protection,
    ) -> Result<Before, Fault> {
        self.check_cpu(cpu);
        if !self.pages().contains(page) {
            return Err(Fault::Unmapped);
        }
        self.drive_fault(cpu, page, |pool| self.fault_once(page, access, pool))
    }

    /// Makes the space the origin of those of these pages that are present and came from another space. If they are to
    /// be `alone`, it also copies pages that others have, too.
    pub(crate) fn collapse_to_self(
        &self,
        cpu: &Cpu<'m, M>,
        mut pages: Pages,
        alone: bool,
    ) -> Result<(), OutOfMemory> {
        let next = |pages| {
            let _guard = cpu.pin();
            first_leaf(NodeRef::Branch(self.tree().root()), pages).map(|leaf| leaf.span())
        };
        while let Some(span) = next(pages) {
            let own = pages.and(span);
            pages.start = span.end;
            let result =
                (own.start..own.end).try_for_each(|page| self.collapse(cpu, page, alone).map(drop));
            result.map_err(|_: Fault| OutOfMemory)?;
        }
        Ok(())
    }

    fn collapse(&self, cpu: &Cpu<'m, M>, page: u64, alone: bool) -> Result<Before, Fault> {
        self.drive_fault(cpu, page, |pool| {
            let Some(leaf) = first_leaf(NodeRef::Branch(self.tree().root()), Pages::new(page, 1))
            else {
                return Ok(Step::Done(Ok(())));
            };
            leaf.lock(self.machine.epoch().platform());
            let step = self.collapse_in(leaf, page, alone, pool);
            leaf.unlock();
            step
        })
    }

    /// Does step by step what a fault comes to.
    #[inline]
    fn drive_fault<'a>(
        &'a self,
        cpu: &Cpu<'m, M>,
        page: u64,
        mut step: impl FnMut(&mut PerCpuPool) -> Result<Step<'a, 'm, M>, Needed>,
    ) -> Result<Before, Fault> {
        let mut turn = None;
        loop {
            cpu.refill_zero_page();
            let next = {
                let _guard = cpu.pin();
                let next = cpu.with_pool(&mut step);
                if let Ok(Step::Wait(leaf)) = next {
                    let fork_lock = &self.tree().fork_lock;
                    if fork_lock.is_locked() {
                        turn.get_or_insert_with(|| fork_lock.wait_ticket());
                    }
                    let waits = || leaf.is_flushing() || fork_lock.is_locked();
                    // SAFETY: a `Cpu` stays on its CPU, and we have no locks.
                    unsafe { self.machine.wait_while(cpu.number(), waits) };
                    continue;
                }
                turn = None;
                next
            };
            match next {
                Ok(Step::Done(result)) => return result.map(|()| Before::Less),
                Ok(Step::Spurious) => return Ok(Before::Enough),
                Ok(Step::MadePresent) => {
                    self.tree().account.add_resident(cpu.number(), 1);
                    return Ok(Before::Absent);
                }
                Ok(Step::PageIn(object, index)) => object.page_in(cpu, index)?,
                Ok(Step::Wait(_)) => unreachable!("it has waited"),
                Ok(Step::BreakCow(shared)) => {
                    self.break_cow(cpu, page, shared);
                    // Its CPUs have flushed the old page while the entry was absent.
                    return Ok(Before::Absent);
                }
                Err(needed) => cpu.refill(needed)?,
            }
        }
    }

    /// As with [`collapse`](Space::collapse), for a leaf that is locked.
    fn collapse_in<'a>(
        &self,
        leaf: &'a Leaf,
        page: u64,
        alone: bool,
        pool: &mut PerCpuPool,
    ) -> Result<Step<'a, 'm, M>, Needed> {
        if leaf.is_detached() {
            return Err(Needed::Retry);
        }
        let done = Ok(Step::Done(Ok(())));
        let Some(entries) = leaf.table() else { return done };
        if self.tree().fork_lock.is_locked() {
            return Ok(Step::Wait(leaf));
        }
        let entry = &entries[leaf.slot(page)];
        let frame = match M::Format::read(entry.load(Relaxed), 0) {
            Entry::FlushPending(_) if leaf.is_flushing() => return Ok(Step::Wait(leaf)),
            Entry::Page { frame, .. } | Entry::ProtNone(frame) => frame,
            // It may linger: then it is not mapped.
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
        let attributes = leaf.attributes(page).expect("what is present is mapped");
        let shared = Shared { leaf, frame, is_known: true, attributes };
        // SAFETY: the leaf is locked, and not being flushed.
        Ok(unsafe { self.begin_cow_break(entry, shared) })
    }

    /// Takes a page out of an entry, to make room for a copy.
    ///
    /// # Safety
    /// The leaf is locked, and not being flushed.
    unsafe fn begin_cow_break<'a>(&self, entry: &AtomicU64, shared: Shared<'a>) -> Step<'a, 'm, M> {
        let Shared { leaf, frame, is_known, .. } = shared;
        // CPUs forget the old page before any of them gets the new one: else one would see what another
        // has written, and a third would not.
        entry.store(M::Format::flush_pending(frame), Relaxed);
        leaf.flush_pending().set(leaf.flush_pending().get() + 1);
        leaf.present().set(leaf.present().get() + u32::from(!is_known));
        // SAFETY: said by the caller.
        unsafe { leaf.begin_flush(None) };
        Step::BreakCow(shared)
    }

    /// Gives a page of its own to an entry that had one with others, and that `begin_cow_break` has taken out.
    #[inline(never)]
    fn break_cow(&self, cpu: &Cpu<'m, M>, page: u64, shared: Shared<'_>) {
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
        let own = own.expect("it was there, and is the CPU's");
        let is_private = !self.machine.frame_meta(frame).is_object();
        if is_private {
            let (from, to) = (self.machine.address(frame), self.machine.address(own));
            // SAFETY: the new frame is ours. The entry has a part of the old one until we release it below, so
            // nobody frees it, and while two have it nobody may write there.
            unsafe { from.copy_to_nonoverlapping(to, PAGE) };
        } else {
            // SAFETY: the new frame is ours. The old one stays: whoever takes it out of the object waits until the
            // leaf is flushed. Spaces that have it shared may write there, which programs do by atomics or
            // outside of the language ([`Machine`]), so these words are read by atomics as well.
            unsafe { copy_words(self.machine, frame, own) };
        }
        self.machine.frame_meta(own).set_origin(self.lineage.own(), page);
        leaf.lock(self.machine.epoch().platform());
        let entries = leaf.table().expect("the entry is in it");
        // Who wants to change the leaf waits until it is flushed: all is as it was. Release: who finds the
        // frame finds the copy. No mutant: the models' memory is loom's atomics, which cannot be copied.
        let new = M::Format::page_or_prot_none(own, attributes.protection);
        entries[leaf.slot(page)].store(new, Release);
        leaf.flush_pending().set(leaf.flush_pending().get() - 1);
        leaf.unlock();
        if is_mutant!("unshare_flush_last") {
            flush();
        }
        // SAFETY: `begin_cow_break` has begun it; the old frame is not in the entry any more, and CPUs have
        // forgotten it.
        unsafe {
            leaf.end_flush();
            if is_private && !is_mutant!("unshare_no_release") {
                release(cpu, frame);
            }
        }
    }

    fn fault_once(
        &self,
        page: u64,
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
        leaf.lock(self.machine.epoch().platform());
        let result = self.fault_in(leaf, page, access, pool);
        leaf.unlock();
        result
    }

    /// The same where there was no leaf: makes one, or a branch on the way to it, if the page is mapped.
    fn fault_above(
        &self,
        page: u64,
        access: Protection,
        pool: &mut PerCpuPool,
    ) -> Result<Step<'_, 'm, M>, Needed> {
        let platform = self.machine.epoch().platform();
        let mut branch = self.tree().root();
        let mut above = None;
        loop {
            // Before the child is looked for, as what is handed down comes there before it is gone from here.
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
                    let locked =
                        Locked { top: NodeRef::Branch(branch), pages: Pages::new(page, 1) };
                    lock::<M>(locked.top, locked.pages, platform);
                    let is_free = branch.child(branch.slot(page)).is_none();
                    if !branch.is_detached() && (is_free || is_mutant!("adds_twice")) {
                        add_child(self.machine, branch, page, &mut pool.tree)?;
                    }
                    return Err(Needed::Retry);
                }
            }
        }
    }

    #[inline]
    fn fault_in<'a>(
        &self,
        leaf: &'a Leaf,
        page: u64,
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
            Some(entries) => entries,
            None => add_table(self.machine, leaf, page, &mut pool.tree)?,
        };
        let entry = &entries[leaf.slot(page)];
        let is_write = access.contains(Protection::WRITE);
        // SAFETY: the leaf is locked, and the page is mapped by it.
        let backing = unsafe { Backing::of(attributes) };
        let mut old = Protection::NONE;
        let (frame, is_known) = match M::Format::read(entry.load(Relaxed), 0) {
            Entry::FlushPending(_) if !is_mutant!("fault_while_leaving") => {
                return Ok(Step::Wait(leaf));
            }
            // Somebody else was here before, or the protection has changed since.
            Entry::Page { frame, protection, .. } => {
                old = protection;
                (frame, true)
            }
            Entry::ProtNone(frame) => (frame, true),
            _ => match backing {
                None => {
                    let frame = pool.frames.page()?;
                    self.machine.frame_meta(frame).set_origin(self.lineage.own(), page);
                    (frame, false)
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
        let meta = self.machine.frame_meta(frame);
        let shared = backing.filter(|backing| backing.sharing == Sharing::Shared);
        if let Some(shared) = shared {
            // A pager is told of what was written to: who only reads may not write.
            if shared.object().has_pager() {
                if !is_write {
                    // But for those that write already: nobody has told their CPUs to forget that.
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
                // The one that there was may have become the object's.
                pool.frames.has_page()?;
                let shared = Shared { leaf, frame, is_known, attributes };
                // SAFETY: it is locked, and not being flushed.
                return Ok(unsafe { self.begin_cow_break(entry, shared) });
            }
            protection = protection.difference(Protection::WRITE);
        }
        // Release: who finds the frame finds zeros.
        entry.store(
            M::Format::page_or_prot_none(frame, protection),
            order!(Release, "page_publish"),
        );
        if is_known {
            let flushes = !matches!(M::FAULT_FLUSH, FaultFlush::Never);
            let is_spurious = flushes && old.contains(access);
            return Ok(if is_spurious { Step::Spurious } else { Step::Done(Ok(())) });
        }
        leaf.present().set(leaf.present().get() + 1);
        Ok(Step::MadePresent)
    }
}

/// Whether what is mapped allows an access.
#[inline]
fn allowed(attributes: Attributes, access: Protection) -> Result<(), Fault> {
    match attributes.protection {
        Protection::GUARD => Err(Fault::Guard),
        protection if protection.contains(access) => Ok(()),
        _ => Err(Fault::AccessDenied),
    }
}

/// Copies a frame that others may write to meanwhile: no word is torn, and each is one that was there during the
/// copy. More than that hardware does not promise either.
///
/// # Safety
/// Both frames are the machine's, and whatever writes to them meanwhile does so by atomics.
#[inline(never)]
unsafe fn copy_words<M: Machine>(machine: &M, from: Frame, to: Frame) {
    let [from, to] = [from, to].map(|frame| table_at(machine, frame));
    // SAFETY: a table is a frame full of atomic words, for which any content is valid; the caller says the rest.
    let (from, to) = unsafe { (from.as_ref(), to.as_ref()) };
    for (from, to) in from.iter().zip(to) {
        // Relaxed: the entry that has the copy is published by a Release.
        to.store(from.load(Relaxed), Relaxed);
    }
}
