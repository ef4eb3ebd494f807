//! A space as others find it: its nodes, and who has to be told of changes.

pub(crate) mod attributes;
pub(crate) mod extents;
pub(crate) mod fork_lock;
pub(crate) mod latch;
pub(crate) mod lock;
pub(crate) mod node;
pub(crate) mod page_states;
pub(crate) mod pool;
pub(crate) mod query;
pub(crate) mod update;

use alloc::boxed::Box;
use core::ptr::NonNull;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use knee_sync::Platform;
use knee_sync::shim::{AtomicBool, Padded, is_mutant};

use crate::machine::Machine;
use crate::machine::cpu_set::CpuSet;
use crate::machine::format::{Entry, Format};
use crate::machine::ticks::Ticks;
use crate::page::Pages;
use crate::quota::Account;
use crate::tree::fork_lock::ForkLock;
use crate::tree::node::{Branch, Leaf, NodeRef};

/// The part of a space that stays where it is as long as anybody uses it.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Tree {
    root: Branch,
    number: u64,
    /// CPUs that may know pages of it.
    active: CpuSet,
    pub(crate) account: Account,
    pub(crate) fork_lock: ForkLock,
    /// Somebody moves pages.
    moving: AtomicBool,
    /// Who unmaps a few pages interrupts nobody.
    is_lazy: AtomicBool,
    /// CPUs were interrupted for all that was unmapped before this time.
    settled: Padded<AtomicU64>,
    /// Its space, and those that have come by a [reverse mapping](crate::backing): in a line of their own, as
    /// all read what is above.
    users: Padded<AtomicU64>,
}

impl Tree {
    /// A tree whose root has no table yet, with one user.
    pub(crate) fn new(level: u8, active: CpuSet, account: Account) -> Tree {
        static NUMBER: AtomicU64 = AtomicU64::new(1);
        Tree {
            root: Branch::root(level),
            number: NUMBER.fetch_add(1, Relaxed),
            active,
            account,
            fork_lock: ForkLock::new(),
            moving: AtomicBool::new(false),
            is_lazy: AtomicBool::new(false),
            settled: Padded(AtomicU64::new(0)),
            users: Padded(AtomicU64::new(1)),
        }
    }

    pub(crate) fn root(&self) -> &Branch {
        &self.root
    }

    /// The space's number.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// All pages that there are.
    pub(crate) fn pages(&self) -> Pages {
        self.root.span()
    }

    /// The CPU goes to pages of the space from now on.
    pub(crate) fn activate(&self, cpu: usize) {
        if !self.active.contains(cpu) {
            self.active.add(cpu);
        }
    }

    /// The CPU goes there no more, and knows nothing.
    pub(crate) fn deactivate(&self, cpu: usize) {
        self.active.remove(cpu);
    }

    pub(crate) fn is_lazy(&self) -> bool {
        self.is_lazy.load(Relaxed)
    }

    pub(crate) fn set_lazy(&self, is: bool) {
        self.is_lazy.store(is, Relaxed);
    }

    /// CPUs that may know pages of it.
    pub(crate) fn active(&self) -> &CpuSet {
        &self.active
    }

    /// CPUs have forgotten all that was unmapped before this time.
    pub(crate) fn set_settled(&self, time: u64) {
        self.settled.0.fetch_max(time, AcqRel);
    }

    /// Whether CPUs have forgotten what was unmapped with this ticket.
    pub(crate) fn is_over(&self, ticket: u64, ticks: &Ticks) -> bool {
        // Acquire: it was over before it was said.
        ticket < self.settled.0.load(Acquire) || ticks.is_over(ticket, &self.active)
    }

    /// Whether no CPU but this one may know pages of it.
    pub(crate) fn is_single_cpu(&self, cpu: usize) -> bool {
        self.active.iter().all(|other| other == cpu)
    }

    /// Waits until nobody else moves pages, as long as the result is there. Under locks of nodes, which others
    /// that have this do not wait for.
    pub(crate) fn lock_remap(&self, platform: &impl Platform) -> RemapGuard<'_> {
        if !is_mutant!("moves_together") {
            platform.wait_while(|| self.moving.swap(true, Acquire));
        }
        RemapGuard(self)
    }

    /// Another user has come.
    ///
    /// # Safety
    /// There is one who does not leave meanwhile.
    pub(crate) unsafe fn get_ref(&self) {
        self.users.0.fetch_add(1, Relaxed);
    }

    /// A user leaves; the last frees it.
    ///
    /// # Safety
    /// The caller is a user of a tree that came from a box, and no CPU goes to its pages after the last.
    pub(crate) unsafe fn put_ref<M: Machine>(tree: NonNull<Tree>, machine: &M) {
        // SAFETY: the caller is a user.
        if unsafe { tree.as_ref() }.users.0.fetch_sub(1, AcqRel) == 1 {
            // SAFETY: it was the last.
            unsafe {
                free_below(machine, &tree.as_ref().root);
                drop(Box::from_raw(tree.as_ptr()));
            }
        }
    }
}

/// See [`Tree::lock_remap`].
pub(crate) struct RemapGuard<'a>(&'a Tree);

impl Drop for RemapGuard<'_> {
    fn drop(&mut self) {
        self.0.moving.store(false, Release);
    }
}

/// Frees what a branch has.
///
/// # Safety
/// Nobody uses the branch or anything below.
unsafe fn free_below<M: Machine>(machine: &M, branch: &Branch) {
    for child in branch.children(branch.span()) {
        let node = branch.pointer(branch.slot(child.node().span().start));
        match child {
            NodeRef::Branch(child) => {
                // SAFETY: it was made by a box, and the caller says that nobody uses it.
                unsafe {
                    free_below(machine, child);
                    drop(Box::from_raw(node.cast::<Branch>().as_ptr()));
                }
            }
            NodeRef::Leaf(leaf) => {
                let entries = leaf.table().into_iter().flatten();
                let frames =
                    entries.filter_map(|entry| match M::Format::read(entry.load(Relaxed), 0) {
                        // What lingers as well: CPUs have left.
                        Entry::Page { frame, .. }
                        | Entry::ProtNone(frame)
                        | Entry::FlushPending(frame) => Some(frame),
                        _ => None,
                    });
                for frame in frames {
                    if machine.frame_meta(frame).release() {
                        // SAFETY: the caller says that nobody uses it, and no other entry has it.
                        unsafe { machine.free(&[frame]) };
                    }
                }
                if leaf.table().is_some() {
                    // SAFETY: as above.
                    unsafe { machine.free(&[leaf.table_frame()]) };
                }
                // SAFETY: as above.
                drop(unsafe { Box::from_raw(node.cast::<Leaf>().as_ptr()) });
            }
        }
    }
    // SAFETY: as above.
    unsafe { machine.free(&[branch.table_frame()]) };
}
