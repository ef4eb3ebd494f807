//! Large pages: 2 MiB of memory under one entry, like Linux's transparent huge pages.
//!
//! The entry of a large page replaces the parent's pointer to a leaf's table. The leaf keeps its table.
//! Before an operation uses a part of the page, it [fills the table](Leaf::fill), which then maps the same
//! frames page by page. So the operation finds the pages in the table, as in any leaf. Before it changes an
//! entry, it [begins a flush](Leaf::begin_flush), and this splits the large page.

use core::ptr::NonNull;
use core::sync::atomic::Ordering::Relaxed;

use knee_sync::shim::is_mutant;

use super::Space;
use super::fault::{Step, allowed};
use crate::backing::Backing;
use crate::backing::object_core::Device;
use crate::cpu::{Cpu, PerCpuPool};
use crate::error::{Fault, MapError};
use crate::machine::format::{ABSENT, Entry, Format, MemoryType, Table};
use crate::machine::{Flush, Machine};
use crate::needed::Needed;
use crate::page::{ENTRIES, Frame, PAGE, Page, Pages, Protection};
use crate::transaction::gather::release;
use crate::tree::attributes::Attributes;
use crate::tree::lock::{Locked, LockedLeaf};
use crate::tree::node::{Leaf, Link, NodeRef, entry_span, first_leaf};
use crate::tree::query::{first_mapped, run_at};
use crate::tree::update::reserve_table;

/// The number of pages of a large page.
const LARGE: u64 = entry_span(1);

/// The outcome of an attempt to promote the pages of a leaf.
enum Promotion {
    /// The pages are a large page already.
    Large,
    /// The pages cannot become a large page.
    Unfit,
    /// The promotion has begun: the leaf's entries are flush-pending, and the pages must be copied to a new
    /// large page, which begins with this frame.
    Begun(NonNull<Leaf>, Frame, Attributes),
}

impl<'m, M: Machine> Space<'m, M> {
    /// Turns large pages on or off. The default is off. If large pages are on, a page fault in anonymous
    /// memory maps a large page of 2 MiB. The 512 pages must be aligned, mapped alike and not present, and
    /// the machine must [have](Machine::allocate_large) a large page; otherwise the fault maps one page.
    /// Forks of the space inherit the setting.
    ///
    /// A large page is split by an operation that changes a part of the page, changes its protection, or
    /// clears its [usage](Space::usage) flags. A fork splits all large pages, because it shares their frames
    /// one by one. Splitting needs no memory. `usage` reports all pages of a large page as accessed and
    /// dirty.
    ///
    /// Device memory needs no setting: it gets large pages wherever addresses and frames are aligned alike,
    /// and pages of 1 GiB if the machine [has](Machine::has_gigabyte_pages) them.
    ///
    /// ```
    /// use knee_vm::hosted::Hosted;
    /// use knee_vm::{Page, Pages, Protection, Space};
    ///
    /// let machine = Hosted::new(4096, 1);
    /// let cpu = machine.cpu(0);
    /// let space = Space::new(&cpu)?;
    /// space.set_large_pages(true);
    /// space.map(&cpu, Pages::new(Page(512), 1024), Protection::READ_WRITE)?;
    /// cpu.store(&space, Page(700).address(), 1).unwrap();
    /// assert_eq!(space.resident(), 512);
    /// # Ok::<(), knee_vm::MapError>(())
    /// ```
    pub fn set_large_pages(&self, is_large: bool) {
        self.tree().large_pages.store(is_large, Relaxed);
    }

    /// Whether page faults in anonymous memory make [large pages](Space::set_large_pages).
    pub fn has_large_pages(&self) -> bool {
        self.tree().large_pages.load(Relaxed)
    }

    /// Makes [large pages](Space::set_large_pages) of the anonymous memory in `pages`, like `MADV_COLLAPSE`.
    /// In each aligned range of 512 readable pages that are mapped alike, copies the present pages to a new
    /// large page, and fills the rest with zeros. Skips a range in which a page is pinned, swapped out or
    /// shared copy-on-write, and stops making large pages when the machine has none left. Returns the number
    /// of large pages that it made or found in `pages`; other CPUs may have split some of them since.
    ///
    /// # Errors
    /// See [`MapError`]. Some ranges may have been promoted before the error.
    pub fn promote(&self, cpu: &Cpu<'m, M>, pages: Pages) -> Result<u64, MapError> {
        self.check(cpu, pages)?;
        let (mut rest, mut count) = (pages, 0);
        let next = |rest| {
            let _guard = cpu.pin();
            first_mapped(NodeRef::Branch(self.tree().root()), rest, cpu.platform())
        };
        while let Some(run) = next(rest) {
            let span = Pages::new(Page(run.start.0.next_multiple_of(LARGE)), LARGE);
            if !pages.covers(span) {
                break;
            }
            if run.start < span.start {
                rest.start = span.start;
                continue;
            }
            rest.start = span.end;
            match self.tree().locked(cpu, span, |locked, pool| self.promote_in(locked, pool))? {
                Promotion::Large => count += 1,
                Promotion::Unfit => (),
                Promotion::Begun(leaf, first, attributes) => {
                    // SAFETY: `promote_in` began a flush of the leaf, and the flush keeps the leaf in the
                    // tree.
                    unsafe { self.complete_promotion(cpu, leaf.as_ref(), first, attributes) };
                    count += 1;
                }
            }
        }
        Ok(count)
    }

    /// Makes the entries of a leaf flush-pending, so that a large page can replace them.
    fn promote_in(&self, locked: &Locked<'_>, pool: &mut PerCpuPool) -> Result<Promotion, Needed> {
        let span = locked.pages;
        let Some((run, attributes)) = run_at(locked.top, span) else {
            return Ok(Promotion::Unfit);
        };
        let is_plain = attributes.backing.is_none();
        if run != span || !is_plain || !attributes.protection.contains(Protection::READ) {
            return Ok(Promotion::Unfit);
        }
        if first_leaf(locked.top, span).is_some_and(Leaf::is_large) {
            return Ok(Promotion::Large);
        }
        let is_fit = |leaf: &Leaf| {
            let is_own = |frame| {
                let meta = self.machine.frame_meta(frame);
                !meta.is_shared() && !meta.is_pinned()
            };
            let mut present = leaf.present_in::<M::Format>(span);
            leaf.swapped().get() == 0 && present.all(|present| is_own(present.frame))
        };
        if !first_leaf(locked.top, span).is_none_or(is_fit) || !pool.frames.has_large_page()? {
            return Ok(Promotion::Unfit);
        }
        let NodeRef::Leaf(leaf) = self.lowest_in(locked.top, span, &mut pool.tree)? else {
            unreachable!("the span of a leaf is in one slot of each branch");
        };
        let entries = reserve_table(self.machine, leaf, &mut pool.tree)?;
        let first = pool.frames.large_page();
        // SAFETY: the leaf is locked, and no flush of it is in progress.
        unsafe { leaf.begin_flush(None) };
        leaf.set_link(Link::Absent, ABSENT);
        for present in leaf.present_in::<M::Format>(span) {
            entries[leaf.slot(present.page)]
                .store(M::Format::flush_pending(present.frame), Relaxed);
        }
        leaf.flush_pending().set(leaf.present().get());
        Ok(Promotion::Begun(NonNull::from(leaf), first, attributes))
    }

    /// Copies flush-pending pages to the large page that begins with frame `first`, and maps this large page.
    ///
    /// # Safety
    /// `promote_in` must have returned the leaf and the frame.
    unsafe fn complete_promotion(
        &self,
        cpu: &Cpu<'m, M>,
        leaf: &Leaf,
        first: Frame,
        attributes: Attributes,
    ) {
        let span = leaf.span();
        if !is_mutant!("promote_no_flush") {
            // The table leaves the tree, so CPUs must also forget the pointer to it.
            self.tree().shoot_down(cpu, Flush::Tables(span));
        }
        let locked = LockedLeaf::new(leaf, self.machine.epoch().platform());
        let entries = leaf.table().expect("`promote_in` reserved the table");
        let mut old = None;
        for (index, entry) in entries.iter().enumerate() {
            if let Entry::FlushPending(frame) = M::Format::read(entry.load(Relaxed), 0) {
                let to = Frame(first.0 + index as u64);
                let (from, to) = (self.machine.address(frame), self.machine.address(to));
                // SAFETY: only this operation uses the new frame. No CPU can access the old frame: no entry
                // allows an access, all CPUs have flushed the page, and the frame is neither pinned nor
                // shared.
                unsafe { from.copy_to_nonoverlapping(to, PAGE) };
                self.machine.frame_meta(frame).set_next(old);
                old = Some(frame);
            }
        }
        let added = ENTRIES as u64 - u64::from(leaf.present().get());
        leaf.flush_pending().set(0);
        entries.iter().for_each(|entry| entry.store(ABSENT, Relaxed));
        self.map_large(leaf, first, attributes.protection);
        drop(locked);
        // SAFETY: `promote_in` began the flush, and all CPUs have flushed the old pages, which no entry maps.
        unsafe {
            leaf.end_flush();
            while let Some(frame) = old {
                old = self.machine.frame_meta(frame).take_next();
                release(cpu, frame);
            }
        }
        self.tree().account.add_resident(cpu.number(), added);
    }

    /// Maps private frames as a large page. The leaf must be locked, and have an empty table.
    fn map_large(&self, leaf: &Leaf, first: Frame, protection: Protection) {
        self.init_private(first, leaf.span().start, protection);
        if protection.contains(Protection::EXECUTE) && !is_mutant!("large_unprepared") {
            (1..LARGE).for_each(|index| self.machine.prepare_code(Frame(first.0 + index)));
        }
        leaf.present().set(ENTRIES as u32);
        leaf.set_link(Link::Large, M::Format::large(M::Format::page(first, protection)));
    }

    /// Makes all CPUs flush a large page that was split, or a table pointer that a large page will replace.
    ///
    /// # Safety
    /// The caller must have begun the flush of the leaf.
    #[cold]
    pub(super) unsafe fn complete_flush(&self, cpu: &Cpu<'m, M>, leaf: &Leaf, flush: Flush) {
        self.tree().shoot_down(cpu, flush);
        // SAFETY: the caller began the flush, and all CPUs have flushed.
        unsafe { leaf.end_flush() };
    }

    /// Handles a fault that this access caused: makes a large page of a locked leaf in which no page is
    /// present. Returns `None` if the pages cannot become a large page.
    #[cold]
    pub(super) fn make_large<'a>(
        &self,
        leaf: &'a Leaf,
        access: Protection,
        pool: &mut PerCpuPool,
    ) -> Result<Option<Step<'a, 'm, M>>, Needed> {
        let Some(attributes) = leaf.uniform() else { return Ok(None) };
        if let Err(fault) = allowed(attributes, access) {
            return Ok(Some(Step::Done(Err(fault))));
        }
        let Attributes { mut protection, backing } = attributes;
        // SAFETY: the leaf is locked, so the pages stay mapped by their backing.
        let backing = unsafe { Backing::of(Attributes { protection, backing }) };
        let device = match backing {
            Some(backing) => match device_of(backing, leaf.span().start, LARGE) {
                None => return Ok(None),
                found => found,
            },
            None => None,
        };
        if let Some((device, _)) = device {
            if !device.access.contains(access) {
                return Ok(Some(Step::Done(Err(Fault::AccessDenied))));
            }
            protection &= device.access;
        }
        if !protection.contains(Protection::READ)
            || device.is_none() && !(self.has_large_pages() && pool.frames.has_large_page()?)
        {
            return Ok(None);
        }
        if self.tree().delays_large_pages() && !is_mutant!("large_while_pruning") {
            return Ok(Some(Step::WaitLarge));
        }
        if leaf.link() == Link::Table {
            // The table is empty, but CPUs may have cached the pointer to it.
            return Ok(Some(unlink(leaf)));
        }
        let entries = reserve_table(self.machine, leaf, &mut pool.tree)?;
        match device {
            Some((device, first)) => {
                fill_with_device::<M>(leaf, entries, first, protection, device.memory);
            }
            None => self.map_large(leaf, pool.frames.large_page(), protection),
        }
        Ok(Some(Step::MadePresent(ENTRIES as u64)))
    }
}

/// Removes the pointer to the table of a locked leaf, so that a large page can take its place after a flush.
fn unlink<'a, 'm, M: Machine>(leaf: &'a Leaf) -> Step<'a, 'm, M> {
    if leaf.is_flushing() {
        return Step::Wait(leaf);
    }
    // SAFETY: the leaf is locked, and no flush of it is in progress.
    unsafe { leaf.begin_flush(None) };
    leaf.set_link(Link::Absent, ABSENT);
    let flush = match is_mutant!("large_keeps_table") {
        true => Flush::Range(leaf.span()),
        false => Flush::Tables(leaf.span()),
    };
    Step::Flush(leaf, flush)
}

/// The device whose memory backs the `count` pages that begin with `start`, and the frame of page `start`.
/// `None` if these pages cannot be mapped as a single page.
pub(super) fn device_of(backing: &Backing, start: Page, count: u64) -> Option<(&Device, Frame)> {
    let object = backing.object();
    let device = object.device.as_ref()?;
    let index = backing.index(start);
    // Beyond the end of the object, the number of the frame might overflow.
    let is_within = index <= object.len().checked_sub(count)?;
    let first = is_within.then(|| device.frame(index))?;
    first.0.is_multiple_of(count).then_some((device, first))
}

/// Maps device memory as a large page. The leaf must be locked.
fn fill_with_device<M: Machine>(
    leaf: &Leaf,
    entries: &Table,
    first: Frame,
    protection: Protection,
    memory: MemoryType,
) {
    let entry = |index| M::Format::device(Frame(first.0 + index), protection, memory);
    for (place, index) in entries.iter().zip(0..) {
        place.store(entry(index), Relaxed);
    }
    leaf.devices().set(ENTRIES as u32);
    leaf.present().set(ENTRIES as u32);
    leaf.set_link(Link::Filled, M::Format::large(entry(0)));
}
