//! The shared state of a space: its nodes, and the CPUs that a shootdown has to interrupt.

pub(crate) mod attributes;
pub(crate) mod branch_link;
pub(crate) mod extents;
pub(crate) mod fork_lock;
pub(crate) mod gigabyte;
pub(crate) mod large;
pub(crate) mod latch;
pub(crate) mod lock;
pub(crate) mod node;
pub(crate) mod page_states;
pub(crate) mod pool;
pub(crate) mod query;
pub(crate) mod update;

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::ptr::{self, NonNull};
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use knee_sync::Platform;
use knee_sync::shim::{
    AtomicBool, AtomicPtr, AtomicU64, Padded, fetch_max, is_mutant, order, test_and_set,
};

use crate::machine::Machine;
use crate::machine::cpu_set::CpuSet;
use crate::machine::format::{Entry, Format};
use crate::machine::pins::Pins;
use crate::machine::ticks::Ticks;
use crate::page::Pages;
use crate::quota::Account;
use crate::swap::Swap;
use crate::tree::fork_lock::ForkLock;
use crate::tree::node::{Branch, Leaf, NodeRef, Swapped};

/// The part of a space that stays at one address until the last reference to it is dropped.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Tree {
    root: Branch,
    number: u64,
    /// CPUs whose TLBs may have entries of the space.
    active: CpuSet,
    pub(crate) account: Account,
    /// The swap area of the space, if any.
    swap: Option<Arc<Swap>>,
    pub(crate) fork_lock: ForkLock,
    /// True while a [`RemapGuard`] exists. This flag has a cache line of its own: all operations read the
    /// fields above, and a write to the flag must not invalidate their line.
    moving: Padded<AtomicBool>,
    /// The machine's ticks if the space is [lazy](crate::Space::set_lazy), otherwise null.
    ticks: AtomicPtr<Ticks>,
    /// Whether page faults may create large pages.
    pub(crate) large_pages: AtomicBool,
    /// Whether the space has ever had a page of 1 GiB.
    gigabytes: AtomicBool,
    /// Number of [`LargePageGuard`]s. On a cache line of its own, so that writes to it do not invalidate the
    /// line of the fields above, which all operations read.
    large_page_guards: Padded<AtomicU64>,
    /// Pins of private pages. [`Space::pin`](crate::Space::pin) increments this count while it holds the lock
    /// of the page's leaf, so an operation that locks the leaf later sees the new count. This count has a
    /// cache line of its own: all operations read the fields above, and a write to the count must not
    /// invalidate their line.
    pub(crate) pins: Padded<Pins>,
    /// The page at which the next [reclaim](crate::Space::reclaim) begins.
    pub(crate) hand: Padded<AtomicU64>,
    /// All CPUs have flushed everything that was unmapped before this time.
    settled: Padded<AtomicU64>,
    /// The number of references: one for the space, and one for each visitor that uses the [reverse
    /// mapping](crate::backing). This count has a cache line of its own: all operations read the fields
    /// above, and a write to the count must not invalidate their line.
    users: Padded<AtomicU64>,
}

impl Tree {
    /// A tree whose root has no table yet, with one reference.
    pub(crate) fn new(
        level: u8,
        active: CpuSet,
        account: Account,
        swap: Option<Arc<Swap>>,
    ) -> Tree {
        static NUMBER: core::sync::atomic::AtomicU64 = core::sync::atomic::AtomicU64::new(1);
        Tree {
            root: Branch::root(level),
            number: NUMBER.fetch_add(1, Relaxed),
            active,
            account,
            swap,
            fork_lock: ForkLock::new(),
            moving: Padded(AtomicBool::new(false)),
            ticks: AtomicPtr::new(ptr::null_mut()),
            large_pages: AtomicBool::new(false),
            gigabytes: AtomicBool::new(false),
            large_page_guards: Padded(AtomicU64::new(0)),
            pins: Padded(Pins::default()),
            hand: Padded(AtomicU64::new(0)),
            settled: Padded(AtomicU64::new(0)),
            users: Padded(AtomicU64::new(1)),
        }
    }

    pub(crate) fn root(&self) -> &Branch {
        &self.root
    }

    /// The swap area of the space, if any.
    pub(crate) fn swap(&self) -> Option<&Arc<Swap>> {
        self.swap.as_ref()
    }

    /// The space's number.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// All pages of the space.
    pub(crate) fn pages(&self) -> Pages {
        self.root.span()
    }

    /// Adds CPU `cpu` to the shootdown set. Must be called before the CPU accesses pages of the space.
    pub(crate) fn activate(&self, cpu: usize) {
        if !self.active.contains(cpu) {
            self.active.add(cpu);
        }
    }

    /// Removes CPU `cpu` from the shootdown set. The CPU must no longer access pages of the space, and its
    /// TLB must have no entries of the space.
    pub(crate) fn deactivate(&self, cpu: usize) {
        self.active.remove(cpu);
    }

    /// The machine's ticks, if the space is [lazy](crate::Space::set_lazy).
    pub(crate) fn ticks(&self) -> Option<&Ticks> {
        // SAFETY: `set_ticks` requires the ticks of the machine, which outlives all users of the tree. No
        // mutant weakens the Acquire, because it matters only to a machine that creates its ticks on first
        // use.
        unsafe { self.ticks.load(Acquire).as_ref() }
    }

    /// Makes the space lazy, or synchronous if `ticks` is `None`.
    ///
    /// # Safety
    /// The ticks must be those of the space's machine.
    pub(crate) unsafe fn set_ticks(&self, ticks: Option<&Ticks>) {
        let ticks = ticks.map_or(ptr::null_mut(), |ticks| ptr::from_ref(ticks).cast_mut());
        self.ticks.store(ticks, Release);
    }

    /// CPUs whose TLBs may have entries of the space.
    pub(crate) fn active(&self) -> &CpuSet {
        &self.active
    }

    /// Records that all CPUs have flushed everything that was unmapped before `time`.
    pub(crate) fn set_settled(&self, time: u64) {
        // Release: if a CPU accessed the pages before it flushed them, the access happens before any reuse of
        // the pages.
        fetch_max(&self.settled.0, time, order!(Release, "settled_set"));
    }

    /// Whether all CPUs have flushed what an operation unmapped before it took this ticket from [`Ticks`].
    pub(crate) fn is_over(&self, ticket: u64) -> bool {
        // Acquire: pairs with `set_settled`, which follows the shootdown.
        ticket < self.settled.0.load(order!(Acquire, "settled_load"))
            || self.ticks().is_some_and(|ticks| ticks.is_over(ticket, &self.active))
    }

    /// Whether only the TLB of `cpu` may have entries of the space.
    pub(crate) fn is_single_cpu(&self, cpu: usize) -> bool {
        self.active.iter().all(|other| other == cpu)
    }

    /// Waits until no other remap is in progress, and excludes other remaps until the guard is dropped. A
    /// caller may hold node locks while it waits, so to avoid a deadlock, an operation that holds a guard
    /// must not wait for node locks.
    pub(crate) fn lock_remap(&self, platform: &impl Platform) -> RemapGuard<'_> {
        if !is_mutant!("moves_together") {
            platform.wait_while(|| test_and_set(&self.moving, order!(Acquire, "remap_lock")));
        }
        RemapGuard(self)
    }

    /// Makes page faults wait before they create large pages, until the guard is dropped. The caller must
    /// hold the locks of the pages concerned: a page fault that later takes one of these locks sees the
    /// guard.
    pub(crate) fn delay_large_pages(&self) -> LargePageGuard<'_> {
        self.large_page_guards.0.fetch_add(1, Relaxed);
        LargePageGuard(self)
    }

    /// Whether a page fault must wait before it creates a large page. Acquire: pairs with the drop of a
    /// [`LargePageGuard`]. If this function returns false, all CPUs have completed the flush that the guard
    /// covered.
    pub(crate) fn delays_large_pages(&self) -> bool {
        self.large_page_guards.0.load(order!(Acquire, "large_guard_load")) > 0
    }

    /// Adds a reference.
    ///
    /// # Safety
    /// At least one reference to the tree must exist during the whole call.
    pub(crate) unsafe fn get_ref(&self) {
        self.users.0.fetch_add(1, Relaxed);
    }

    /// Drops a reference, and returns whether it was the last one. If a call drops the last reference, the
    /// accesses of all owners happen before this call returns.
    pub(crate) fn release(&self) -> bool {
        self.users.0.fetch_sub(1, order!(AcqRel, "tree_release")) == 1
    }

    /// Drops a reference, and frees the tree if this was the last reference.
    ///
    /// # Safety
    /// The caller must own a reference to a tree that came from a box. No CPU may access pages of the
    /// space after the last reference is dropped.
    pub(crate) unsafe fn put_ref<M: Machine>(tree: NonNull<Tree>, machine: &M) {
        // SAFETY: the caller owns a reference.
        if unsafe { tree.as_ref() }.release() {
            // SAFETY: this was the last reference, so nobody else uses the tree.
            unsafe {
                free_below(machine, &tree.as_ref().root, tree.as_ref().swap.as_deref());
                drop(Box::from_raw(tree.as_ptr()));
            }
        }
    }
}

/// See [`Tree::lock_remap`].
pub(crate) struct RemapGuard<'a>(&'a Tree);

impl Drop for RemapGuard<'_> {
    fn drop(&mut self) {
        self.0.moving.store(false, order!(Release, "remap_unlock"));
    }
}

/// While this guard exists, page faults create no large pages. An operation holds it in two cases:
/// * CPUs may have cached pointers to tables that were removed from the tree. No large page may take the
///   place of such a table ("break before make", see [`Leaf::begin_flush`]).
/// * The operation removes several 1 GiB pages. If page faults created these pages again in the meantime,
///   the operation might never finish.
pub(crate) struct LargePageGuard<'a>(pub(crate) &'a Tree);

impl Drop for LargePageGuard<'_> {
    fn drop(&mut self) {
        self.0.large_page_guards.0.fetch_sub(1, order!(Release, "large_guard_end"));
    }
}

/// Frees a branch's table and descendants, and the frames of their pages.
///
/// # Safety
/// Nobody may use the branch or its descendants.
unsafe fn free_below<M: Machine>(machine: &M, branch: &Branch, swap: Option<&Swap>) {
    for child in branch.children(branch.span()) {
        let node = branch.pointer(branch.slot(child.node().span().start));
        match child {
            NodeRef::Branch(child) => {
                // SAFETY: the child came from a box, and nobody uses it, as the caller guarantees.
                unsafe {
                    free_below(machine, child, swap);
                    drop(Box::from_raw(node.cast::<Branch>().as_ptr()));
                }
            }
            NodeRef::Leaf(leaf) => {
                let large = leaf.large_frame::<M::Format>();
                if let Some(first) = large {
                    // SAFETY: nobody uses the large page, as the caller guarantees, and no frame of a large
                    // page is shared.
                    unsafe { machine.free_large(first) };
                }
                let entries = leaf.table().filter(|_| large.is_none()).into_iter().flatten();
                let frames =
                    entries.filter_map(|entry| match M::Format::read(entry.load(Relaxed), 0) {
                        // Free flush-pending frames as well: no CPU uses the space.
                        Entry::Page { frame, .. }
                        | Entry::ProtNone(frame)
                        | Entry::FlushPending(frame) => Some(frame),
                        _ => None,
                    });
                for frame in frames {
                    if machine.frame_meta(frame).release() {
                        // SAFETY: nobody uses the frame through this entry, as the caller guarantees, and
                        // no other entry maps it.
                        unsafe { machine.free(&[frame]) };
                    }
                }
                for Swapped { slot, .. } in leaf.swapped_in::<M::Format>(leaf.span()) {
                    swap.into_iter().for_each(|swap| swap.release(machine, slot, 1));
                }
                if leaf.table().is_some() {
                    // SAFETY: the table belongs to the leaf, and nobody uses the leaf.
                    unsafe { machine.free(&[leaf.table_frame()]) };
                }
                // SAFETY: the leaf came from a box, and nobody uses it.
                drop(unsafe { Box::from_raw(node.cast::<Leaf>().as_ptr()) });
            }
        }
    }
    // SAFETY: the table belongs to the branch, and nobody uses the branch.
    unsafe { machine.free(&[branch.table_frame()]) };
}
