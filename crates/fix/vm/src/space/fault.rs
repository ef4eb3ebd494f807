//! The handler of page faults.

use core::sync::atomic::Ordering::{Relaxed, Release};

use knee_sync::shim::{AtomicU64, is_mutant, order};

use super::Space;
use crate::backing::object_core::{Found, Held};
use crate::backing::{Backing, Sharing};
use crate::cpu::{Cpu, Spare};
use crate::error::{Fault, OutOfMemory};
use crate::machine::format::{Entry, FaultFlush, Format};
use crate::machine::{Flush, Machine, table_at};
use crate::needed::Lack;
use crate::page::{Frame, PAGE, Pages, Protection};
use crate::transaction::gather::release;
use crate::tree::attributes::Attributes;
use crate::tree::lock::{Locked, lock};
use crate::tree::node::{Any, Leaf, first_leaf};
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

/// What a fault comes to.
enum Step<'a, 'm, M: Machine> {
    /// The page is present, and allows what it may; or the access is invalid.
    Done(Result<(), Fault>),
    /// It was present, and allowed the access.
    Spurious,
    /// It goes on, with a page more.
    Came,
    /// CPUs have to forget something first.
    Wait(&'a Leaf),
    /// The page is one that others have, too.
    Unshare(Shared<'a>),
    /// The object's pager has to bring this page.
    PageIn(Held<'m, M>, u64),
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
        self.go_on(cpu, page, |spare| self.fault_once(page, access, spare))
    }

    /// Makes those of these pages that are present the space's own that came to be elsewhere, and, if they are to
    /// be `alone`, those that others have too.
    pub(crate) fn own_all(
        &self,
        cpu: &Cpu<'m, M>,
        mut pages: Pages,
        alone: bool,
    ) -> Result<(), OutOfMemory> {
        let next = |pages| {
            let _guard = cpu.pin();
            first_leaf(Any::Branch(self.tree().root()), pages).map(|leaf| leaf.span())
        };
        while let Some(span) = next(pages) {
            let own = pages.and(span);
            pages.start = span.end;
            let result =
                (own.start..own.end).try_for_each(|page| self.own(cpu, page, alone).map(drop));
            result.map_err(|_: Fault| OutOfMemory)?;
        }
        Ok(())
    }

    fn own(&self, cpu: &Cpu<'m, M>, page: u64, alone: bool) -> Result<Before, Fault> {
        self.go_on(cpu, page, |spare| {
            let Some(leaf) = first_leaf(Any::Branch(self.tree().root()), Pages::new(page, 1))
            else {
                return Ok(Step::Done(Ok(())));
            };
            leaf.lock(self.machine.epoch().platform());
            let step = self.own_in(leaf, page, alone, spare);
            leaf.unlock();
            step
        })
    }

    /// Does step by step what a fault comes to.
    #[inline]
    fn go_on<'a>(
        &'a self,
        cpu: &Cpu<'m, M>,
        page: u64,
        mut step: impl FnMut(&mut Spare) -> Result<Step<'a, 'm, M>, Lack>,
    ) -> Result<Before, Fault> {
        let mut turn = None;
        loop {
            cpu.stock_page();
            let next = {
                let _guard = cpu.pin();
                let next = cpu.with_spare(&mut step);
                if let Ok(Step::Wait(leaf)) = next {
                    let forking = &self.tree().forking;
                    if forking.is_on() {
                        turn.get_or_insert_with(|| forking.turn());
                    }
                    let waits = || leaf.is_flushing() || forking.is_on();
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
                Ok(Step::Came) => {
                    self.tree().account.came(cpu.number(), 1);
                    return Ok(Before::Absent);
                }
                Ok(Step::PageIn(object, index)) => object.page_in(cpu, index)?,
                Ok(Step::Wait(_)) => unreachable!("it has waited"),
                Ok(Step::Unshare(shared)) => {
                    self.unshare(cpu, page, shared);
                    // Its CPUs have flushed the old page while the entry was absent.
                    return Ok(Before::Absent);
                }
                Err(lack) => cpu.stock(lack)?,
            }
        }
    }

    /// As with [`own`](Space::own), for a leaf that is locked.
    fn own_in<'a>(
        &self,
        leaf: &'a Leaf,
        page: u64,
        alone: bool,
        spare: &mut Spare,
    ) -> Result<Step<'a, 'm, M>, Lack> {
        if leaf.is_stray() {
            return Err(Lack::Nothing);
        }
        let done = Ok(Step::Done(Ok(())));
        let Some(entries) = leaf.table() else { return done };
        if self.tree().forking.is_on() {
            return Ok(Step::Wait(leaf));
        }
        let entry = &entries[leaf.slot(page)];
        let frame = match M::Format::read(entry.load(Relaxed), 0) {
            Entry::Leaving(_) if leaf.is_flushing() => return Ok(Step::Wait(leaf)),
            Entry::Page { frame, .. } | Entry::Parked(frame) => frame,
            // It may linger: then it is not mapped.
            _ => return done,
        };
        let (note, own) = (self.machine.note(frame), self.lineage.own());
        if note.is_object() || note.origin().0 == own && !(alone && note.is_shared()) {
            return done;
        }
        if !note.is_shared() {
            note.set_origin(own, page);
            return done;
        }
        if leaf.is_flushing() {
            return Ok(Step::Wait(leaf));
        }
        spare.frames.has_page()?;
        let attributes = leaf.attributes(page).expect("what is present is mapped");
        let shared = Shared { leaf, frame, is_known: true, attributes };
        // SAFETY: the leaf is locked, and not being flushed.
        Ok(unsafe { self.leave(entry, shared) })
    }

    /// Takes a page out of an entry, to make room for a copy.
    ///
    /// # Safety
    /// The leaf is locked, and not being flushed.
    unsafe fn leave<'a>(&self, entry: &AtomicU64, shared: Shared<'a>) -> Step<'a, 'm, M> {
        let Shared { leaf, frame, is_known, .. } = shared;
        // CPUs forget the old page before any of them gets the new one: else one would see what another
        // has written, and a third would not.
        entry.store(M::Format::leaving(frame), Relaxed);
        leaf.leaving().set(leaf.leaving().get() + 1);
        leaf.present().set(leaf.present().get() + u32::from(!is_known));
        // SAFETY: said by the caller.
        unsafe { leaf.begin_flush(None) };
        Step::Unshare(shared)
    }

    /// Gives a page of its own to an entry that had one with others, and that the caller has made leave.
    #[inline(never)]
    fn unshare(&self, cpu: &Cpu<'m, M>, page: u64, shared: Shared<'_>) {
        let Shared { leaf, frame, is_known, attributes } = shared;
        let flush = || self.tree().shoot_down(cpu, Flush::Range(Pages::new(page, 1)));
        if is_known {
            if !is_mutant!("unshare_no_flush", "unshare_flush_last") {
                flush();
            }
        } else {
            self.tree().account.came(cpu.number(), 1);
        }
        let own = cpu.with_spare(|spare| spare.frames.page());
        let own = own.expect("it was there, and is the CPU's");
        let is_private = !self.machine.note(frame).is_object();
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
        self.machine.note(own).set_origin(self.lineage.own(), page);
        leaf.lock(self.machine.epoch().platform());
        let entries = leaf.table().expect("the entry is in it");
        // Who wants to change the leaf waits until it is flushed: all is as it was. Release: who finds the
        // frame finds the copy. No mutant: the models' memory is loom's atomics, which cannot be copied.
        let new = M::Format::page_or_parked(own, attributes.protection);
        entries[leaf.slot(page)].store(new, Release);
        leaf.leaving().set(leaf.leaving().get() - 1);
        leaf.unlock();
        if is_mutant!("unshare_flush_last") {
            flush();
        }
        // SAFETY: `leave` has begun it; the old frame is not in the entry any more, and CPUs have
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
        spare: &mut Spare,
    ) -> Result<Step<'_, 'm, M>, Lack> {
        let mut branch = self.tree().root();
        let leaf = loop {
            match branch.child(branch.slot(page)) {
                Some(Any::Branch(child)) => branch = child,
                Some(Any::Leaf(leaf)) => break leaf,
                None => return self.fault_above(page, access, spare),
            }
        };
        leaf.lock(self.machine.epoch().platform());
        let result = self.fault_in(leaf, page, access, spare);
        leaf.unlock();
        result
    }

    /// The same where there was no leaf: makes one, or a branch on the way to it, if the page is mapped.
    fn fault_above(
        &self,
        page: u64,
        access: Protection,
        spare: &mut Spare,
    ) -> Result<Step<'_, 'm, M>, Lack> {
        let platform = self.machine.epoch().platform();
        let mut branch = self.tree().root();
        let mut above = None;
        loop {
            // Before the child is looked for, as what is handed down comes there before it is gone from here.
            above = branch.find(page).or(above);
            match branch.child(branch.slot(page)) {
                Some(Any::Branch(child)) => branch = child,
                Some(Any::Leaf(_)) => return Err(Lack::Nothing),
                None => {
                    let Some(attributes) = above else {
                        return Ok(Step::Done(Err(Fault::Unmapped)));
                    };
                    if let Err(fault) = allowed(attributes, access) {
                        return Ok(Step::Done(Err(fault)));
                    }
                    let locked = Locked { top: Any::Branch(branch), pages: Pages::new(page, 1) };
                    lock::<M>(locked.top, locked.pages, platform);
                    let is_free = branch.child(branch.slot(page)).is_none();
                    if !branch.is_stray() && (is_free || is_mutant!("adds_twice")) {
                        add_child(self.machine, branch, page, &mut spare.tree)?;
                    }
                    return Err(Lack::Nothing);
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
        spare: &mut Spare,
    ) -> Result<Step<'a, 'm, M>, Lack> {
        if leaf.is_stray() {
            return Err(Lack::Nothing);
        }
        if self.tree().forking.is_on() && !is_mutant!("fault_while_forking") {
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
            None => add_table(self.machine, leaf, page, &mut spare.tree)?,
        };
        let entry = &entries[leaf.slot(page)];
        let is_write = access.allows(Protection::WRITE);
        // SAFETY: the leaf is locked, and the page is mapped by it.
        let backing = unsafe { Backing::of(attributes) };
        let mut old = Protection::NONE;
        let (frame, is_known) = match M::Format::read(entry.load(Relaxed), 0) {
            Entry::Leaving(_) if !is_mutant!("fault_while_leaving") => return Ok(Step::Wait(leaf)),
            // Somebody else was here before, or the protection has changed since.
            Entry::Page { frame, protection, .. } => {
                old = protection;
                (frame, true)
            }
            Entry::Parked(frame) => (frame, true),
            _ => match backing {
                None => {
                    let frame = spare.frames.page()?;
                    self.machine.note(frame).set_origin(self.lineage.own(), page);
                    (frame, false)
                }
                Some(backing) => {
                    let (object, index) = (backing.object(), backing.index(page));
                    let Spare { blocks, frames, .. } = spare;
                    match object.find(self.machine, index, blocks, frames)? {
                        Found::Frame(frame) => (frame, false),
                        Found::Away => {
                            return Ok(Step::PageIn(Held::new(object, self.machine), index));
                        }
                        Found::Fault(fault) => return Ok(Step::Done(Err(fault))),
                    }
                }
            },
        };
        let note = self.machine.note(frame);
        let shared = backing.filter(|backing| backing.sharing == Sharing::Shared);
        if let Some(shared) = shared {
            // A pager is told of what was written to: who only reads may not write.
            if shared.object().has_pager() {
                if !is_write {
                    // But for those that write already: nobody has told their CPUs to forget that.
                    if !old.allows(Protection::WRITE) {
                        protection = protection.without(Protection::WRITE);
                    }
                } else if shared.object().has(shared.index(page), frame) {
                    note.set_dirty();
                } else {
                    return Ok(Step::Done(Err(Fault::Later)));
                }
            }
        } else if note.is_object() || note.is_shared() && !is_mutant!("writes_to_shared") {
            if is_write {
                if leaf.is_flushing() && !is_mutant!("unshare_while_flushing") {
                    return Ok(Step::Wait(leaf));
                }
                // The one that there was may have become the object's.
                spare.frames.has_page()?;
                let shared = Shared { leaf, frame, is_known, attributes };
                // SAFETY: it is locked, and not being flushed.
                return Ok(unsafe { self.leave(entry, shared) });
            }
            protection = protection.without(Protection::WRITE);
        }
        // Release: who finds the frame finds zeros.
        entry.store(M::Format::page_or_parked(frame, protection), order!(Release, "page_publish"));
        if is_known {
            let flushes = !matches!(M::FAULT_FLUSH, FaultFlush::Never);
            let is_spurious = flushes && old.allows(access);
            return Ok(if is_spurious { Step::Spurious } else { Step::Done(Ok(())) });
        }
        leaf.present().set(leaf.present().get() + 1);
        Ok(Step::Came)
    }
}

/// Whether what is mapped allows an access.
#[inline]
fn allowed(attributes: Attributes, access: Protection) -> Result<(), Fault> {
    match attributes.protection {
        Protection::GUARD => Err(Fault::Guard),
        protection if protection.allows(access) => Ok(()),
        _ => Err(Fault::Forbidden),
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
