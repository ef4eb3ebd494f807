//! The nodes of a space's tree: one for each page table, whether or not the table has been allocated yet.

use alloc::boxed::Box;
use core::cell::{Cell, UnsafeCell};
use core::ops::Range;
use core::ptr::{self, NonNull};
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use knee_sync::Platform;
use knee_sync::epoch::Entry;
use knee_sync::shim::{
    AtomicBool, AtomicPtr, AtomicU64, Guarded, is_mutant, order, pause, test_and_set,
};

use crate::machine::format::{self, ABSENT, Format, Table};
use crate::page::{BITS, ENTRIES, Frame, Page, Pages, Protection};
use crate::tree::attributes::Attributes;
use crate::tree::branch_link::AtomicBranchLink;
use crate::tree::latch::{LatchedExtents, View};
use crate::tree::page_states::{PageStates, Uniform};

/// The common part of all nodes.
///
/// The lock protects the node's own state. Within the node's span, the lock also freezes the extents of the
/// ancestors: to change an extent, an operation must hold the locks of all descendants that overlap the
/// changed pages.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Node {
    /// The first field, so that its address is the node's address. A cell, because retiring the node writes
    /// to this field while other CPUs may still use the node.
    retired: UnsafeCell<Entry>,
    locked: AtomicBool,
    /// The level of the node's table; 0 for a leaf.
    level: u8,
    /// Whether the node was removed from the tree. Protected by the lock.
    detached: Cell<bool>,
    /// The first page of the node's span.
    first: Page,
    parent: Option<NonNull<Branch>>,
    /// Null for a leaf without a table. Set once, under the lock.
    table: AtomicPtr<Table>,
    /// The table's frame.
    frame: Cell<Frame>,
    /// Link in a private list of detached nodes, used only by the operation that detached the node.
    next_pruned: Cell<Option<NonNull<Node>>>,
}

/// A node whose table maps pages.
#[derive(Debug)]
#[repr(C, align(128))]
pub(crate) struct Leaf {
    node: Node,
    /// Protected by the lock.
    states: Guarded<PageStates>,
    /// Number of entries that are neither absent nor swapped. Protected by the lock.
    present: Cell<u32>,
    /// Number of entries of swapped pages. Protected by the lock.
    swapped: Cell<u32>,
    /// Whether entries have changed while TLBs may still have the old entries. Set under the lock.
    flushing: AtomicBool,
    /// Number of flush-pending entries. Protected by the lock.
    flush_pending: Cell<u32>,
    /// Number of entries that map device memory. Protected by the lock.
    devices: Cell<u32>,
    /// What the parent's entry contains. Protected by the lock.
    link: Cell<Link>,
    /// Link in a TLB gather's list of leaves, used only by the operation that owns the gather.
    next: Cell<Option<NonNull<Leaf>>>,
}

/// What the parent's entry for a leaf contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Link {
    /// Nothing. The leaf may have a table nevertheless: the next page fault in the leaf then either stores a
    /// pointer to the table in this entry, or makes a large page.
    Absent,
    /// A large page of private memory, which covers the span. The leaf has a table nevertheless, so that the
    /// large page can be [split](crate::tree::large) without an allocation. All entries of the table are absent. No
    /// frame is shared.
    Large,
    /// A pointer to the leaf's table.
    Table,
    /// A large page. The table's 512 entries map the same frames with the same protection. Their accessed
    /// bits are set; the large page's own bit is in the parent's entry. No frame is shared.
    Filled,
}

/// A node whose table points to tables.
#[derive(Debug)]
#[repr(C, align(128))]
pub(crate) struct Branch {
    node: Node,
    /// Extents that cover more than one child, or that have not been handed down to a child yet. Changed
    /// under the lock.
    extents: LatchedExtents,
    /// A bitmap of existing children. Protected by the lock.
    used: [AtomicU64; ENTRIES.div_ceil(64)],
    /// Set under the lock, and read by pinned CPUs without the lock.
    children: [AtomicPtr<Node>; ENTRIES],
    /// What the parent's entry contains. Changed under the lock.
    link: AtomicBranchLink,
}

/// A reference to a node of either kind.
#[derive(Debug, Clone, Copy)]
pub(crate) enum NodeRef<'a> {
    Leaf(&'a Leaf),
    Branch(&'a Branch),
}

// SAFETY: each cell is either protected by the lock or private to one operation, as the comments on the
// fields say; the other fields are atomic or constant.
unsafe impl Sync for Leaf {}
// SAFETY: as for `Leaf`.
unsafe impl Sync for Branch {}
// SAFETY: as for `Sync`; `parent` stays valid, because parents outlive their children.
unsafe impl Send for Leaf {}
// SAFETY: as for `Leaf`.
unsafe impl Send for Branch {}

/// The maximum number of branches above a node: a tree has at most five levels, which cover 57-bit
/// addresses.
pub(crate) const MOST_ABOVE: usize = 4;

/// Pauses between attempts to take a contended lock: about 1 µs at first, and up to `MOST_PAUSES` later. The
/// pauses are long, because the CPU that released a contended lock usually takes it again soon, and every
/// poll by another CPU steals the lock's cache line.
const FEWEST_PAUSES: u32 = 64;
const MOST_PAUSES: u32 = 256;

/// The index of the entry for `page` in a table of level `level`.
#[inline]
pub(crate) fn slot_at(level: u8, page: Page) -> usize {
    (page.0 >> (BITS * u32::from(level))) as usize % ENTRIES
}

/// Number of pages that one entry of a table of level `level` covers.
pub(crate) const fn entry_span(level: u8) -> u64 {
    1 << (BITS * level as u32)
}

/// A page that is present in a leaf.
pub(crate) struct Present<'a> {
    pub(crate) page: Page,
    pub(crate) entry: &'a AtomicU64,
    pub(crate) frame: Frame,
    /// The accesses that the entry allows.
    pub(crate) protection: Protection,
}

/// A swapped page of a leaf.
pub(crate) struct Swapped<'a> {
    pub(crate) page: Page,
    pub(crate) entry: &'a AtomicU64,
    /// The slot of the page's content.
    pub(crate) slot: u64,
    pub(crate) dirty: bool,
}

impl Node {
    /// A new node, locked by its creator.
    fn new(level: u8, first: Page, parent: Option<NonNull<Branch>>) -> Node {
        Node {
            retired: UnsafeCell::new(Entry::new()),
            locked: AtomicBool::new(true),
            level,
            detached: Cell::new(false),
            first,
            parent,
            table: AtomicPtr::new(ptr::null_mut()),
            frame: Cell::new(Frame(0)),
            next_pruned: Cell::new(None),
        }
    }

    /// The pages that the node covers.
    pub(crate) fn span(&self) -> Pages {
        Pages::new(self.first, entry_span(self.level + 1))
    }

    pub(crate) fn level(&self) -> u8 {
        self.level
    }

    /// The index of the entry for a page of the span.
    #[inline]
    pub(crate) fn slot(&self, page: Page) -> usize {
        slot_at(self.level, page)
    }

    /// Whether one entry covers all these pages of the span.
    #[inline]
    pub(crate) fn is_one_slot(&self, pages: Pages) -> bool {
        self.slot(pages.start) == self.slot(pages.end - 1)
    }

    #[inline]
    pub(crate) fn lock(&self, platform: &impl Platform) {
        if test_and_set(&self.locked, order!(Acquire, "node_lock")) {
            self.lock_slowly(platform);
        }
    }

    /// Polls with exponential backoff, so that the holder can keep using the node's cache lines. If two
    /// CPUs took turns, these lines would move on every turn (T. E. Anderson, 1990). So waiters are not
    /// served in order.
    #[cold]
    fn lock_slowly(&self, platform: &impl Platform) {
        let (mut rounds, mut pauses) = (0_u32, FEWEST_PAUSES);
        while self.locked.load(Relaxed)
            || test_and_set(&self.locked, order!(Acquire, "node_lock_slowly"))
        {
            (1..pauses).for_each(|_| pause());
            // After a long wait, the platform may run other threads.
            platform.relax(rounds);
            rounds = rounds.saturating_add(pauses);
            pauses = (4 * pauses).min(MOST_PAUSES);
        }
    }

    /// Unlocks the node. Only the holder of the lock may call this.
    #[inline]
    pub(crate) fn unlock(&self) {
        debug_assert!(self.locked.load(Relaxed), "only the holder unlocks a node");
        self.locked.store(false, order!(Release, "node_unlock"));
    }

    /// The caller must hold the lock.
    #[inline]
    pub(crate) fn is_detached(&self) -> bool {
        self.detached.get()
    }

    /// Sets this node's link in the list of detached nodes.
    pub(crate) fn set_next(&self, next: Option<NonNull<Node>>) {
        self.next_pruned.set(next);
    }

    pub(crate) fn take_next(&self) -> Option<NonNull<Node>> {
        self.next_pruned.take()
    }

    /// The node's own epoch entry, so that retiring the node needs no allocation.
    pub(crate) fn entry(node: NonNull<Node>) -> NonNull<Entry> {
        node.cast()
    }

    /// The table, or `None` if there is none yet.
    #[inline]
    pub(crate) fn table(&self) -> Option<&Table> {
        // SAFETY: the table lives as long as the node. Relaxed: the caller holds the lock under which the
        // table was set, or uses a branch, whose table was set before the branch was published.
        unsafe { self.table.load(Relaxed).as_ref() }
    }

    pub(crate) fn table_frame(&self) -> Frame {
        self.frame.get()
    }

    /// Sets the table, whose entries must be absent.
    ///
    /// # Safety
    /// The caller must hold the lock or have exclusive access to the node, which must have no table yet. The
    /// node becomes the owner of `frame`, and `at` must be the address of the frame's content.
    pub(crate) unsafe fn set_table(&self, frame: Frame, at: NonNull<Table>) {
        self.frame.set(frame);
        self.table.store(at.as_ptr(), Relaxed);
    }

    /// The attributes of a page in an ancestor's extents. The caller must hold this node's lock and be
    /// pinned.
    ///
    /// Searches from the root down: extents are copied to a child before they are removed from its
    /// parent, so a top-down search finds every extent, whereas a bottom-up search could miss one.
    #[inline]
    pub(crate) fn find_above(&self, page: Page) -> Option<Attributes> {
        self.above_from_root().find_map(|branch| branch.find(page))
    }

    /// The ancestors, from the root down.
    #[inline]
    fn above_from_root(&self) -> impl Iterator<Item = &Branch> {
        let mut branches = [None; MOST_ABOVE];
        let mut next = self.above();
        for place in branches.iter_mut().rev() {
            *place = next;
            next = next.and_then(|branch| branch.node.above());
        }
        if is_mutant!("above_from_leaf") {
            branches.reverse();
        }
        branches.into_iter().flatten()
    }

    #[inline]
    pub(crate) fn above(&self) -> Option<&Branch> {
        // SAFETY: branches outlive their children.
        self.parent.map(|parent| unsafe { parent.as_ref() })
    }
}

impl Leaf {
    /// Frees a leaf after its grace period.
    ///
    /// # Safety
    /// `entry` must be the [`entry`](Node::entry) of a leaf that came from a box. No CPU may be able to find
    /// the leaf, and the leaf's grace period must have passed.
    pub(crate) unsafe fn free(entry: NonNull<Entry>) {
        // SAFETY: the entry is the first field, and the leaf came from a box, as the caller guarantees.
        drop(unsafe { Box::from_raw(entry.cast::<Leaf>().as_ptr()) });
    }

    /// Whether no page is mapped, present, swapped or flush-pending. The caller must hold the lock.
    pub(crate) fn is_empty(&self) -> bool {
        self.has_no_content()
            && self.flush_pending.get() == 0
            // SAFETY: the caller holds the lock.
            && unsafe { self.with_states(|states| states.is_free(0..ENTRIES)) }
    }

    pub(crate) fn new(first: Page, parent: NonNull<Branch>) -> Leaf {
        Leaf {
            node: Node::new(0, first, Some(parent)),
            states: Guarded::new(PageStates::new()),
            present: Cell::new(0),
            swapped: Cell::new(0),
            flushing: AtomicBool::new(false),
            flush_pending: Cell::new(0),
            devices: Cell::new(0),
            link: Cell::new(Link::Absent),
            next: Cell::new(None),
        }
    }

    /// Passes the states of the pages, indexed by slot, to `with`.
    ///
    /// # Safety
    /// The caller must hold the lock. `with` must not call this method on the same leaf.
    #[inline]
    pub(crate) unsafe fn with_states<R>(&self, with: impl FnOnce(&mut PageStates) -> R) -> R {
        // SAFETY: the caller holds the lock, and `with` does not re-enter.
        self.states.with(|states| with(unsafe { &mut *states }))
    }

    /// The attributes of a page. The caller must hold the lock and be pinned.
    // Inlined, and without `or_else`, whose closure the compiler does not inline: a call would take 30 of the
    // 290 instructions of a fault on a present page.
    #[inline(always)]
    pub(crate) fn attributes(&self, page: Page) -> Option<Attributes> {
        // SAFETY: the caller holds the lock.
        let own = unsafe { self.with_states(|states| states.get(self.slot(page))) };
        match own {
            Some(_) => own,
            None => self.find_above(page),
        }
    }

    /// The pages of the span that are in `pages`, with their entries. `count` counts the leaf's entries of
    /// the kind that the caller looks for: if the leaf has none, the iterator is empty. The caller must have
    /// the lock.
    #[inline]
    fn entries_in(
        &self,
        pages: Pages,
        count: &Cell<u32>,
    ) -> impl Iterator<Item = (Page, &AtomicU64)> + use<'_> {
        let pages = pages.and(self.span());
        let entries = self.table().filter(|_| count.get() > 0 && !pages.is_empty());
        debug_assert!(entries.is_none() || self.link() != Link::Large, "the table is not filled");
        let entries = entries.into_iter().flat_map(move |entries| &entries[self.slots(pages)]);
        pages.iter().zip(entries)
    }

    /// The present pages among `pages`, except for device memory. The caller must hold the lock.
    #[inline]
    pub(crate) fn present_in<F: Format>(&self, pages: Pages) -> impl Iterator<Item = Present<'_>> {
        self.entries_in(pages, &self.present).filter_map(|(page, entry)| {
            match F::read(entry.load(Relaxed), 0) {
                format::Entry::Page { frame, protection, .. } => {
                    Some(Present { page, entry, frame, protection })
                }
                format::Entry::ProtNone(frame) => {
                    Some(Present { page, entry, frame, protection: Protection::NONE })
                }
                _ => None,
            }
        })
    }

    /// The present pages of device memory among `pages`, with their entries and frames. The caller must have
    /// the lock.
    #[inline]
    pub(crate) fn devices_in<F: Format>(
        &self,
        pages: Pages,
    ) -> impl Iterator<Item = (Page, &AtomicU64, Frame)> {
        self.entries_in(pages, &self.devices).filter_map(|(page, entry)| {
            match F::read(entry.load(Relaxed), 0) {
                format::Entry::Device { frame, .. } => Some((page, entry, frame)),
                _ => None,
            }
        })
    }

    /// The swapped pages among `pages`. The caller must have the lock.
    #[inline]
    pub(crate) fn swapped_in<F: Format>(
        &self,
        pages: Pages,
    ) -> impl Iterator<Item = Swapped<'_>> + use<'_, F> {
        self.entries_in(pages, &self.swapped).filter_map(|(page, entry)| {
            match F::read(entry.load(Relaxed), 0) {
                format::Entry::Swapped { slot, dirty } => {
                    Some(Swapped { page, entry, slot, dirty })
                }
                _ => None,
            }
        })
    }

    /// The slots of `pages` within the span.
    #[inline]
    pub(crate) fn slots(&self, pages: Pages) -> Range<usize> {
        let pages = pages.and(self.span());
        let first = self.slot(pages.start);
        first..first + pages.count() as usize
    }

    /// Whether TLBs may still have stale entries for pages of the leaf, or entries that allow more accesses
    /// than the table does. Before an operation reuses the addresses of such pages, it must wait until this
    /// method returns false. Acquire: pairs with the end of the flush, so when this method returns false, the
    /// flush is complete on all CPUs.
    #[inline]
    pub(crate) fn is_flushing(&self) -> bool {
        self.flushing.load(order!(Acquire, "flushing_load"))
    }

    /// Marks the leaf as being flushed, before its entries change. `others` is the list of leaves that the
    /// caller has already marked. Returns this list with the leaf added.
    ///
    /// If the leaf is a [large page](Leaf::is_large), splits it: removes the parent's entry. The table must
    /// be [filled](Leaf::fill), unless no page is left. The caller must then flush the whole span. No CPU can
    /// find the table before the flush has ended, so no TLB has entries of both sizes ("break before make":
    /// Arm, "Architecture Reference Manual", D8.16).
    ///
    /// # Safety
    /// The caller must hold the lock. The leaf must not be [flushing](Leaf::is_flushing) for another
    /// operation.
    pub(crate) unsafe fn begin_flush(
        &self,
        others: Option<NonNull<Leaf>>,
    ) -> Option<NonNull<Leaf>> {
        debug_assert!(
            self.link() != Link::Large || self.present.get() == 0,
            "the table is filled before a split"
        );
        if self.is_large() && !is_mutant!("large_stays") {
            self.set_link(Link::Absent, ABSENT);
        }
        // SAFETY: the caller meets the contract.
        unsafe { self.begin_flush_unsplit(others) }
    }

    /// Like [`begin_flush`](Leaf::begin_flush), but does not split a large page. No entry of the table may
    /// change.
    ///
    /// # Safety
    /// As for [`begin_flush`](Leaf::begin_flush).
    pub(crate) unsafe fn begin_flush_unsplit(
        &self,
        others: Option<NonNull<Leaf>>,
    ) -> Option<NonNull<Leaf>> {
        if self.flushing.load(Relaxed) {
            return others;
        }
        self.flushing.store(true, Relaxed);
        self.next.set(others);
        Some(NonNull::from(self))
    }

    /// Ends a flush, after all CPUs have flushed. Returns the list of leaves that was passed to
    /// [`begin_flush`](Leaf::begin_flush).
    ///
    /// # Safety
    /// The caller must be the operation that called [`begin_flush`](Leaf::begin_flush).
    pub(crate) unsafe fn end_flush(&self) -> Option<NonNull<Leaf>> {
        let others = self.next.take();
        self.flushing.store(false, order!(Release, "flushing_end"));
        others
    }

    /// Number of flush-pending entries. The caller must hold the lock. While the leaf is being flushed,
    /// its flush-pending entries belong to the operation that flushes it.
    pub(crate) fn flush_pending(&self) -> &Cell<u32> {
        &self.flush_pending
    }

    /// The flush-pending pages among `pages`, with their frames. The caller must hold the lock. If the leaf
    /// is not being [flushed](Leaf::is_flushing), these pages *linger*: they were unmapped lazily, and TLBs
    /// may hold their translations until the CPUs tick.
    #[inline]
    pub(crate) fn flush_pending_in<F: Format>(
        &self,
        pages: Pages,
    ) -> impl Iterator<Item = (Page, Frame)> {
        self.entries_in(pages, &self.flush_pending).filter_map(|(page, entry)| {
            match F::read(entry.load(Relaxed), 0) {
                format::Entry::FlushPending(frame) => Some((page, frame)),
                _ => None,
            }
        })
    }

    /// What the parent's entry contains. The caller must hold the lock.
    #[inline]
    pub(crate) fn link(&self) -> Link {
        self.link.get()
    }

    /// Whether the parent's entry is a large page. The caller must hold the lock.
    #[inline]
    pub(crate) fn is_large(&self) -> bool {
        matches!(self.link.get(), Link::Large | Link::Filled)
    }

    /// Whether a fault finds the pages in the table, if the leaf has one. The caller must have the lock.
    #[inline]
    pub(crate) fn has_entries(&self) -> bool {
        matches!(self.link.get(), Link::Table | Link::Filled)
    }

    /// Records that the table of a large page is filled. The caller must have the lock.
    pub(crate) fn set_filled(&self) {
        self.link.set(Link::Filled);
    }

    /// The parent's entry. The caller must have the lock to access it.
    pub(crate) fn parent_entry(&self) -> &AtomicU64 {
        let parent = self.above().expect("a leaf has a parent");
        let entries = parent.table().expect("branches have tables");
        &entries[parent.slot(self.span().start)]
    }

    /// Stores `entry` in the parent's table. `link` must be the kind of this entry. The caller must
    /// hold the lock. Release: a CPU that finds the table or the page sees its content.
    pub(crate) fn set_link(&self, link: Link, entry: u64) {
        self.parent_entry().store(entry, order!(Release, "table_publish"));
        self.link.set(link);
    }

    /// Sets or clears the accessed bit of a large page. Returns whether this has changed the bit. The caller
    /// must have the lock.
    #[cold]
    pub(crate) fn set_large_accessed<F: Format>(&self, accessed: bool) -> bool {
        let entry = F::read(self.parent_entry().load(Relaxed), 1);
        let format::Entry::Page { frame, protection, accessed: old, .. } = entry else {
            return false;
        };
        if old != accessed {
            let page = F::page(frame, protection);
            let page = if accessed { page } else { F::clear_accessed(page) };
            self.set_link(self.link(), F::large(page));
        }
        old != accessed
    }

    /// The attributes of the span's pages, if all of these pages are mapped with the same attributes. The
    /// caller must hold the lock and be pinned.
    pub(crate) fn uniform(&self) -> Option<Attributes> {
        let span = self.span();
        // SAFETY: the caller holds the lock.
        match unsafe { self.with_states(|states| states.uniform()) } {
            Uniform::Free => self.above_from_root().find_map(|branch| branch.covering(span)),
            Uniform::Mapped(attributes) => Some(attributes),
            Uniform::Mixed => None,
        }
    }

    /// Number of entries that map device memory. The caller must hold the lock.
    pub(crate) fn devices(&self) -> &Cell<u32> {
        &self.devices
    }

    /// Whether no page is present, swapped or flush-pending. The caller must hold the lock.
    pub(crate) fn has_no_content(&self) -> bool {
        self.present.get() == 0 && self.swapped.get() == 0
    }

    /// Number of entries of swapped pages. The caller must hold the lock.
    pub(crate) fn swapped(&self) -> &Cell<u32> {
        &self.swapped
    }

    /// Number of entries that are neither absent nor swapped. The caller must hold the lock.
    pub(crate) fn present(&self) -> &Cell<u32> {
        &self.present
    }
}

impl Branch {
    /// A branch that is in no tree. [`begin`](Branch::begin) sets its level, its first page and its parent.
    pub(crate) fn blank() -> Branch {
        Branch {
            node: Node::new(0, Page(0), None),
            extents: LatchedExtents::new(),
            used: core::array::from_fn(|_| AtomicU64::new(0)),
            children: core::array::from_fn(|_| AtomicPtr::new(ptr::null_mut())),
            link: AtomicBranchLink::new(),
        }
    }

    pub(crate) fn atomic_link(&self) -> &AtomicBranchLink {
        &self.link
    }

    /// The attributes of the span's pages, if one extent of this branch or of an ancestor covers all of them.
    /// The caller must hold the lock and be pinned, and there must be no children.
    pub(crate) fn uniform(&self) -> Option<Attributes> {
        let span = self.node.span();
        let above = self.node.above_from_root().find_map(|branch| branch.covering(span));
        above.or_else(|| self.covering(span))
    }

    /// The attributes of this branch's extent that covers all of `pages`, if there is one. The caller must be
    /// pinned.
    fn covering(&self, pages: Pages) -> Option<Attributes> {
        let first = self.extents.read(|extents| extents.overlapping(pages).first()).flatten();
        first.filter(|extent| extent.pages.covers(pages)).map(|extent| extent.attributes)
    }

    /// Whether the branch has children. The caller must have the lock.
    pub(crate) fn has_children(&self) -> bool {
        self.used.iter().any(|word| word.load(Relaxed) != 0)
    }

    /// Frees a branch after its grace period.
    ///
    /// # Safety
    /// As for [`Leaf::free`].
    pub(crate) unsafe fn free(entry: NonNull<Entry>) {
        // SAFETY: the entry is the first field, and the branch came from a box, as the caller guarantees.
        drop(unsafe { Box::from_raw(entry.cast::<Branch>().as_ptr()) });
    }

    /// Whether the branch has no extents and no children. The caller must hold the lock.
    pub(crate) fn is_empty(&self) -> bool {
        self.extents.view().is_empty() && !self.has_children()
    }

    /// The unlocked root of a new tree.
    pub(crate) fn root(level: u8) -> Branch {
        let root = Branch { node: Node::new(level, Page(0), None), ..Branch::blank() };
        root.node.unlock();
        root
    }

    /// Sets the level, the first page and the parent of a blank branch, and locks the branch.
    pub(crate) fn begin(&mut self, level: u8, first: Page, parent: NonNull<Branch>) {
        self.node = Node::new(level, first, Some(parent));
    }

    /// The extents. The caller must hold the lock.
    #[inline]
    pub(crate) fn extents(&self) -> View<'_> {
        self.extents.view()
    }

    /// The latch of the extents.
    #[inline]
    pub(crate) fn latched(&self) -> &LatchedExtents {
        &self.extents
    }

    /// Whether an extent overlaps `pages`. The caller must be pinned.
    #[inline]
    pub(crate) fn overlaps(&self, pages: Pages) -> bool {
        // Not inlined, because it is seldom called: most branches on the way down have never had extents.
        #[inline(never)]
        fn overlap(extents: &LatchedExtents, pages: Pages) -> bool {
            extents.read(|extents| !extents.overlapping(pages).is_empty()).unwrap_or(false)
        }
        !self.extents.is_unused() && overlap(&self.extents, pages)
    }

    /// The attributes of `page`, if an extent contains it. The caller must be pinned.
    #[inline]
    pub(crate) fn find(&self, page: Page) -> Option<Attributes> {
        self.extents.read(|extents| extents.find(page)).flatten()
    }

    /// The child at `slot`. The caller must be pinned.
    #[inline]
    pub(crate) fn child(&self, slot: usize) -> Option<NodeRef<'_>> {
        // SAFETY: `self.node.level` is this branch's level.
        unsafe { self.child_of_level(self.node.level, slot) }
    }

    /// Like [`child`](Branch::child), but without loading the level, which the caller already knows.
    ///
    /// # Safety
    /// `level` must be this branch's level.
    #[inline]
    pub(crate) unsafe fn child_of_level(&self, level: u8, slot: usize) -> Option<NodeRef<'_>> {
        debug_assert_eq!(level, self.node.level);
        let node = NonNull::new(self.children[slot].load(order!(Acquire, "child_load")))?;
        // SAFETY: the child stays valid until a grace period after `remove`, as `add` requires. The caller is
        // pinned or holds the lock. Children of a branch of level 1 are leaves.
        Some(unsafe {
            match level {
                1 => NodeRef::Leaf(node.cast().as_ref()),
                _ => NodeRef::Branch(node.cast().as_ref()),
            }
        })
    }

    /// The child at `slot`, for a caller that frees it. The caller must hold the lock.
    ///
    /// # Panics
    /// If there is no child.
    pub(crate) fn pointer(&self, slot: usize) -> NonNull<Node> {
        NonNull::new(self.children[slot].load(Relaxed)).expect("the child exists")
    }

    /// Publishes a child.
    ///
    /// # Safety
    /// The caller must hold the lock, and `slot` must be empty. `child` must have been made for this
    /// slot: a leaf if this branch is of level 1, otherwise a branch of the level below. It must stay
    /// valid until it has been removed and a grace period has passed.
    pub(crate) unsafe fn add(&self, slot: usize, child: NonNull<Node>) {
        self.children[slot].store(child.as_ptr(), order!(Release, "child_add"));
        let used = &self.used[slot / 64];
        used.store(used.load(Relaxed) | 1 << (slot % 64), Relaxed);
    }

    /// Removes a child, marks it detached and unlocks it. CPUs that found the child before its removal may
    /// read it until a grace period has passed.
    ///
    /// # Safety
    /// The caller must hold the locks of the branch and the child. The child must exist and be empty.
    pub(crate) unsafe fn remove(&self, slot: usize) -> NonNull<Node> {
        let child = self.pointer(slot);
        self.children[slot].store(ptr::null_mut(), Relaxed);
        let used = &self.used[slot / 64];
        used.store(used.load(Relaxed) & !(1 << (slot % 64)), Relaxed);
        // SAFETY: the caller holds the child's lock.
        unsafe {
            child.as_ref().detached.set(true);
            child.as_ref().unlock();
        }
        child
    }

    /// The children that overlap `pages`, in page order. The caller must hold the lock, or have exclusive
    /// access to the space.
    pub(crate) fn children(&self, pages: Pages) -> impl Iterator<Item = NodeRef<'_>> {
        let pages = pages.and(self.node.span());
        let slots = match pages.is_empty() {
            true => 0..0,
            false => self.node.slot(pages.start)..self.node.slot(pages.end - 1) + 1,
        };
        let words = slots.start / 64..slots.end.div_ceil(64);
        words.flat_map(move |word| {
            let first = 64 * word;
            let mut bits = self.used[word].load(Relaxed);
            // Mask out children before the first slot and after the last.
            bits &= u64::MAX << slots.start.saturating_sub(first);
            if slots.end < first + 64 {
                bits &= (1 << (slots.end - first)) - 1;
            }
            core::iter::from_fn(move || {
                let slot = (bits != 0).then(|| first + bits.trailing_zeros() as usize)?;
                bits &= bits - 1;
                self.child(slot)
            })
        })
    }
}

/// The first leaf that overlaps `pages`, in the subtree of `node`. The caller must be pinned, and needs
/// no lock.
pub(crate) fn first_leaf(node: NodeRef<'_>, pages: Pages) -> Option<&Leaf> {
    let pages = pages.and(node.node().span());
    match node {
        _ if pages.is_empty() => None,
        NodeRef::Leaf(leaf) => Some(leaf),
        NodeRef::Branch(branch) => {
            let slots = branch.slot(pages.start)..=branch.slot(pages.end - 1);
            slots.filter_map(|slot| branch.child(slot)).find_map(|child| first_leaf(child, pages))
        }
    }
}

impl<'a> NodeRef<'a> {
    #[inline]
    pub(crate) fn node(self) -> &'a Node {
        match self {
            NodeRef::Leaf(leaf) => &leaf.node,
            NodeRef::Branch(branch) => &branch.node,
        }
    }
}

impl core::ops::Deref for Leaf {
    type Target = Node;

    fn deref(&self) -> &Node {
        &self.node
    }
}

impl core::ops::Deref for Branch {
    type Target = Node;

    fn deref(&self) -> &Node {
        &self.node
    }
}
