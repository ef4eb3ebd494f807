//! The tree of a space: a node for each table that there is or may be.

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

use crate::machine::format::{self, Format, Table};
use crate::page::{BITS, ENTRIES, Frame, Pages};
use crate::tree::attributes::Attributes;
use crate::tree::latch::{LatchedExtents, View};
use crate::tree::page_states::PageStates;

/// What all nodes have.
///
/// Under the lock: what is said to be, and for pages of the node's span the content of all nodes above,
/// as who changes that has the locks of all nodes below that have any of these pages.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Node {
    /// First, so that its address is that of the node. A cell, as others may look at the node when it begins to
    /// wait.
    retired: UnsafeCell<Entry>,
    locked: AtomicBool,
    /// 0 for a leaf.
    level: u8,
    /// Under the lock: it is not part of the tree any more.
    detached: Cell<bool>,
    /// The first page.
    first: u64,
    parent: Option<NonNull<Branch>>,
    /// Null for a leaf that has none yet. It is set once, under the lock.
    table: AtomicPtr<Table>,
    /// The table's frame.
    frame: Cell<Frame>,
    /// The next of those that the same one has taken out of the tree. The one's own.
    next_pruned: Cell<Option<NonNull<Node>>>,
}

/// A node whose entries are pages.
#[derive(Debug)]
#[repr(C, align(128))]
pub(crate) struct Leaf {
    node: Node,
    /// Under the lock.
    states: Guarded<PageStates>,
    /// Under the lock: entries that are not absent.
    present: Cell<u32>,
    /// Somebody has changed entries, and CPUs have not forgotten the old ones yet. Set under the lock.
    flushing: AtomicBool,
    /// Under the lock: entries that are on their way out.
    flush_pending: Cell<u32>,
    /// The next leaf of those that the same one has changed. The one's own.
    next: Cell<Option<NonNull<Leaf>>>,
}

/// A node whose entries are tables.
#[derive(Debug)]
#[repr(C, align(128))]
pub(crate) struct Branch {
    node: Node,
    /// What covers more than one child, or was not yet handed down to one. Changed under the lock.
    extents: LatchedExtents,
    /// A bit for each child that there is. Under the lock.
    used: [AtomicU64; ENTRIES.div_ceil(64)],
    /// Set under the lock, read under an epoch.
    children: [AtomicPtr<Node>; ENTRIES],
}

/// A node, as what it is.
#[derive(Debug, Clone, Copy)]
pub(crate) enum NodeRef<'a> {
    Leaf(&'a Leaf),
    Branch(&'a Branch),
}

// SAFETY: cells are used under the lock, the rest are atomics.
unsafe impl Sync for Leaf {}
// SAFETY: as above.
unsafe impl Sync for Branch {}
// SAFETY: as above; parents are there as long as their children.
unsafe impl Send for Leaf {}
// SAFETY: as above.
unsafe impl Send for Branch {}

/// Branches above a node, at most: five levels have all addresses of 57 bits.
pub(crate) const MOST_ABOVE: usize = 4;

/// Of who waits for a lock, before he looks again: one microsecond, and some in the end. Who has found a lock taken is
/// beside somebody who wants it again and again mostly, and each look takes that one its line.
const FEWEST_PAUSES: u32 = 64;
const MOST_PAUSES: u32 = 256;

/// The entry of a table of this level that stands for a page of its span.
#[inline]
pub(crate) fn slot_at(level: u8, page: u64) -> usize {
    (page >> (BITS * u32::from(level))) as usize % ENTRIES
}

/// Pages that one entry of a table of this level covers.
pub(crate) const fn entry_span(level: u8) -> u64 {
    1 << (BITS * level as u32)
}

impl Node {
    /// A node that its maker has locked.
    fn new(level: u8, first: u64, parent: Option<NonNull<Branch>>) -> Node {
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

    /// The pages that it is about.
    pub(crate) fn span(&self) -> Pages {
        Pages::new(self.first, entry_span(self.level + 1))
    }

    pub(crate) fn level(&self) -> u8 {
        self.level
    }

    /// The entry that stands for a page of the span.
    #[inline]
    pub(crate) fn slot(&self, page: u64) -> usize {
        slot_at(self.level, page)
    }

    /// Whether one entry stands for all these pages of the span.
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

    /// Looks less and less often, so that whoever has the node's lines goes on with them meanwhile: two that take
    /// turns pay for each line at each turn (T. E. Anderson, 1990). So who waits is not served in order.
    #[cold]
    fn lock_slowly(&self, platform: &impl Platform) {
        let (mut rounds, mut pauses) = (0_u32, FEWEST_PAUSES);
        while self.locked.load(Relaxed)
            || test_and_set(&self.locked, order!(Acquire, "node_lock_slowly"))
        {
            (1..pauses).for_each(|_| pause());
            // The platform lets others run where we have waited for long.
            platform.relax(rounds);
            rounds = rounds.saturating_add(pauses);
            pauses = (4 * pauses).min(MOST_PAUSES);
        }
    }

    /// By whoever has locked it.
    #[inline]
    pub(crate) fn unlock(&self) {
        debug_assert!(self.locked.load(Relaxed), "nobody else unlocks it");
        self.locked.store(false, order!(Release, "node_unlock"));
    }

    /// Under the lock.
    #[inline]
    pub(crate) fn is_detached(&self) -> bool {
        self.detached.get()
    }

    /// Puts it into the list of who has taken it out of the tree.
    pub(crate) fn set_next(&self, next: Option<NonNull<Node>>) {
        self.next_pruned.set(next);
    }

    pub(crate) fn take_next(&self) -> Option<NonNull<Node>> {
        self.next_pruned.take()
    }

    /// What has a node wait for the end of an epoch, without an allocation.
    pub(crate) fn entry(node: NonNull<Node>) -> NonNull<Entry> {
        node.cast()
    }

    /// The table, once there is one.
    #[inline]
    pub(crate) fn table(&self) -> Option<&Table> {
        // SAFETY: it stays as long as the node. No mutant: callers have the lock under which it was set, or have
        // found a branch that had it before it was published.
        unsafe { self.table.load(Acquire).as_ref() }
    }

    pub(crate) fn table_frame(&self) -> Frame {
        self.frame.get()
    }

    /// Gives it a table of absent entries.
    ///
    /// # Safety
    /// Under the lock, or by whoever alone knows the node; it has none. The frame is the node's from now
    /// on, and `at` is its content.
    pub(crate) unsafe fn set_table(&self, frame: Frame, at: NonNull<Table>) {
        self.frame.set(frame);
        self.table.store(at.as_ptr(), Release);
    }

    /// The extent of a branch above that has this page. Under this node's lock, and under an epoch.
    ///
    /// From the root down, as what branches say moves down meanwhile, and is below before it is gone from
    /// above: who looks the other way passes it.
    #[inline]
    pub(crate) fn find_above(&self, page: u64) -> Option<Attributes> {
        self.above_from_root().find_map(|branch| branch.find(page))
    }

    /// The branches above, the root first.
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
        // SAFETY: branches stay as long as their children.
        self.parent.map(|parent| unsafe { parent.as_ref() })
    }
}

impl Leaf {
    /// Frees a leaf whose epoch is over.
    ///
    /// # Safety
    /// It is the [`entry`](Node::entry) of a leaf that came from a box and that nobody finds any more.
    pub(crate) unsafe fn free(entry: NonNull<Entry>) {
        // SAFETY: said by the caller; the entry is the first field.
        drop(unsafe { Box::from_raw(entry.cast::<Leaf>().as_ptr()) });
    }

    /// Under the lock: whether nothing is mapped or present here.
    pub(crate) fn is_empty(&self) -> bool {
        self.present.get() == 0
            && self.flush_pending.get() == 0
            // SAFETY: the caller has the lock.
            && unsafe { self.with_states(|states| states.is_free(0..ENTRIES)) }
    }

    pub(crate) fn new(first: u64, parent: NonNull<Branch>) -> Leaf {
        Leaf {
            node: Node::new(0, first, Some(parent)),
            states: Guarded::new(PageStates::new()),
            present: Cell::new(0),
            flushing: AtomicBool::new(false),
            flush_pending: Cell::new(0),
            next: Cell::new(None),
        }
    }

    /// Calls `with` with what is mapped, by slots.
    ///
    /// # Safety
    /// Under the lock; `with` does not come back here.
    #[inline]
    pub(crate) unsafe fn with_states<R>(&self, with: impl FnOnce(&mut PageStates) -> R) -> R {
        // SAFETY: the caller has the lock.
        self.states.with(|states| with(unsafe { &mut *states }))
    }

    /// What a page is. Under the lock, and under an epoch.
    #[inline]
    pub(crate) fn attributes(&self, page: u64) -> Option<Attributes> {
        // SAFETY: the caller has the lock.
        let own = unsafe { self.with_states(|states| states.get(self.slot(page))) };
        own.or_else(|| self.find_above(page))
    }

    /// Those of these pages that are present, with their entries and frames. Under the lock.
    #[inline]
    pub(crate) fn present_in<F: Format>(
        &self,
        pages: Pages,
    ) -> impl Iterator<Item = (u64, &AtomicU64, Frame)> {
        let pages = pages.and(self.span());
        let entries = self.table().filter(|_| self.present.get() > 0 && !pages.is_empty());
        let entries = entries.into_iter().flat_map(move |entries| &entries[self.slots(pages)]);
        (pages.start..).zip(entries).filter_map(|(page, entry)| {
            match F::read(entry.load(Relaxed), 0) {
                format::Entry::Page { frame, .. } | format::Entry::ProtNone(frame) => {
                    Some((page, entry, frame))
                }
                _ => None,
            }
        })
    }

    /// The slots of those of these pages that are in the span.
    #[inline]
    pub(crate) fn slots(&self, pages: Pages) -> Range<usize> {
        let pages = pages.and(self.span());
        let first = self.slot(pages.start);
        first..first + pages.count() as usize
    }

    /// Whether CPUs may know entries that are not there any more, or allowed more. Whoever has pages here
    /// for something else has to wait for the end of that. Acquire: it is over everywhere then.
    #[inline]
    pub(crate) fn is_flushing(&self) -> bool {
        self.flushing.load(order!(Acquire, "flushing_load"))
    }

    /// Entries are about to change. `others` are leaves of which the caller has said that as well; returns
    /// them with this one.
    ///
    /// # Safety
    /// Under the lock, and it is not [flushing](Leaf::is_flushing) but for the caller.
    pub(crate) unsafe fn begin_flush(
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

    /// CPUs have forgotten; returns the other leaves.
    ///
    /// # Safety
    /// By who has begun.
    pub(crate) unsafe fn end_flush(&self) -> Option<NonNull<Leaf>> {
        let others = self.next.take();
        self.flushing.store(false, order!(Release, "flushing_end"));
        others
    }

    /// Under the lock: entries that are on their way out. They are of whoever flushes.
    pub(crate) fn flush_pending(&self) -> &Cell<u32> {
        &self.flush_pending
    }

    /// Those of these pages that are on their way out, with their frames. Under the lock. If the leaf is not
    /// being [flushed](Leaf::is_flushing) they *linger*: they were unmapped lazily, and CPUs may know them until
    /// they tick.
    #[inline]
    pub(crate) fn flush_pending_in<F: Format>(
        &self,
        pages: Pages,
    ) -> impl Iterator<Item = (u64, Frame)> {
        let pages = pages.and(self.span());
        let entries = self.table().filter(|_| self.flush_pending.get() > 0 && !pages.is_empty());
        let entries = entries.into_iter().flat_map(move |entries| &entries[self.slots(pages)]);
        (pages.start..).zip(entries).filter_map(|(page, entry)| {
            match F::read(entry.load(Relaxed), 0) {
                format::Entry::FlushPending(frame) => Some((page, frame)),
                _ => None,
            }
        })
    }

    /// Under the lock: entries that are not absent.
    pub(crate) fn present(&self) -> &Cell<u32> {
        &self.present
    }
}

impl Branch {
    /// A branch that is to [begin](Branch::begin).
    pub(crate) fn blank() -> Branch {
        Branch {
            node: Node::new(0, 0, None),
            extents: LatchedExtents::new(),
            used: core::array::from_fn(|_| AtomicU64::new(0)),
            children: core::array::from_fn(|_| AtomicPtr::new(ptr::null_mut())),
        }
    }

    /// Frees a branch whose epoch is over, as [`Leaf::free`] does.
    ///
    /// # Safety
    /// As there.
    pub(crate) unsafe fn free(entry: NonNull<Entry>) {
        // SAFETY: said by the caller; the entry is the first field.
        drop(unsafe { Box::from_raw(entry.cast::<Branch>().as_ptr()) });
    }

    /// Under the lock: whether nothing is said here, and there is no child.
    pub(crate) fn is_empty(&self) -> bool {
        self.extents.view().is_empty() && self.used.iter().all(|word| word.load(Relaxed) == 0)
    }

    /// The root of a tree, which is not locked.
    pub(crate) fn root(level: u8) -> Branch {
        let root = Branch { node: Node::new(level, 0, None), ..Branch::blank() };
        root.node.unlock();
        root
    }

    /// Makes a blank branch one of this place, locked.
    pub(crate) fn begin(&mut self, level: u8, first: u64, parent: NonNull<Branch>) {
        self.node = Node::new(level, first, Some(parent));
    }

    /// Under the lock.
    #[inline]
    pub(crate) fn extents(&self) -> View<'_> {
        self.extents.view()
    }

    /// Where they are.
    #[inline]
    pub(crate) fn latched(&self) -> &LatchedExtents {
        &self.extents
    }

    /// Whether extents have any of these pages. Under an epoch, as what follows.
    #[inline]
    pub(crate) fn overlaps(&self, pages: Pages) -> bool {
        // Not inline, as most branches have never had any on the way down.
        #[inline(never)]
        fn overlap(extents: &LatchedExtents, pages: Pages) -> bool {
            extents.read(|extents| !extents.overlapping(pages).is_empty()).unwrap_or(false)
        }
        !self.extents.is_unused() && overlap(&self.extents, pages)
    }

    /// What extents say of a page.
    #[inline]
    pub(crate) fn find(&self, page: u64) -> Option<Attributes> {
        self.extents.read(|extents| extents.find(page)).flatten()
    }

    /// Under an epoch.
    #[inline]
    pub(crate) fn child(&self, slot: usize) -> Option<NodeRef<'_>> {
        // SAFETY: it is this branch's level.
        unsafe { self.child_of_level(self.node.level, slot) }
    }

    /// The same, of who has come to know this branch's level on the way, which spares a look at the branch.
    ///
    /// # Safety
    /// It is its level.
    #[inline]
    pub(crate) unsafe fn child_of_level(&self, level: u8, slot: usize) -> Option<NodeRef<'_>> {
        debug_assert_eq!(level, self.node.level);
        let node = NonNull::new(self.children[slot].load(order!(Acquire, "child_load")))?;
        // SAFETY: `add` and `remove` see to it that it is there, for as long as somebody under an epoch
        // may have found it. A child of a branch of level 1 is a leaf.
        Some(unsafe {
            match level {
                1 => NodeRef::Leaf(node.cast().as_ref()),
                _ => NodeRef::Branch(node.cast().as_ref()),
            }
        })
    }

    /// A child, for who frees it. Under the lock.
    pub(crate) fn pointer(&self, slot: usize) -> NonNull<Node> {
        NonNull::new(self.children[slot].load(Relaxed)).expect("it is there")
    }

    /// Makes a node a child.
    ///
    /// # Safety
    /// Under the lock. The node is a leaf if this is of level 1, and else a branch, of the level below;
    /// it was made for this slot, there is none, and it stays until it is removed and an epoch is over.
    pub(crate) unsafe fn add(&self, slot: usize, child: NonNull<Node>) {
        self.children[slot].store(child.as_ptr(), order!(Release, "child_add"));
        let used = &self.used[slot / 64];
        used.store(used.load(Relaxed) | 1 << (slot % 64), Relaxed);
    }

    /// Takes a child out, which is detached then. Others may have found it, and look at it until their epochs end.
    ///
    /// # Safety
    /// Under both locks; it is there and empty. Its lock is given back.
    pub(crate) unsafe fn remove(&self, slot: usize) -> NonNull<Node> {
        let child = self.pointer(slot);
        self.children[slot].store(ptr::null_mut(), Relaxed);
        let used = &self.used[slot / 64];
        used.store(used.load(Relaxed) & !(1 << (slot % 64)), Relaxed);
        // SAFETY: the caller has its lock.
        unsafe {
            child.as_ref().detached.set(true);
            child.as_ref().unlock();
        }
        child
    }

    /// Children that have any of these pages, in their order. Under the lock, or by whoever has the
    /// space for itself.
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
            // Those before the first slot, and those from the end on.
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

/// The first leaf that has any of these pages, at a node and below. Under an epoch, without locks.
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
