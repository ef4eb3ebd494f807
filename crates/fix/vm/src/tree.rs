//! A space as others find it: its nodes, and who has to be told of changes.

use alloc::boxed::Box;
use core::ptr::NonNull;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use knee_sync::Platform;

use crate::attributes::Attributes;
use crate::cpu::{Cpu, Lack, Spare};
use crate::cpus::CpuSet;
use crate::error::OutOfMemory;
use crate::forking::{Alone, Forking};
use crate::format::{Entry, Format};
use crate::lineage::Lineage;
use crate::machine::{Flush, Machine};
use crate::mutant::is_mutant;
use crate::node::{Any, Branch, Leaf, MOST_ABOVE, slot_at};
use crate::padded::Padded;
use crate::page::{Frame, Pages};
use crate::primitive::{AtomicBool, give_way};
use crate::quota::Account;
use crate::removal::Removal;
use crate::ticks::Ticks;

/// The part of a space that stays where it is as long as anybody uses it.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Tree {
    root: Branch,
    number: u64,
    /// CPUs that may know pages of it.
    active: CpuSet,
    pub(crate) account: Account,
    pub(crate) lineage: Lineage,
    pub(crate) forking: Forking,
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

/// Nodes that are locked: the lowest that has all that is known of some pages, and those below that
/// have any of them.
pub(crate) struct Locked<'a> {
    pub(crate) top: Any<'a>,
    pub(crate) pages: Pages,
}

impl Locked<'_> {
    /// Calls `with` with the leaves that have any of the pages.
    pub(crate) fn for_each_leaf(&self, mut with: impl FnMut(&Leaf)) {
        fn below(node: Any<'_>, pages: Pages, with: &mut dyn FnMut(&Leaf)) {
            match node {
                Any::Leaf(leaf) => with(leaf),
                Any::Branch(branch) => {
                    branch.children(pages).for_each(|child| below(child, pages, with));
                }
            }
        }
        below(self.top, self.pages, &mut with);
    }

    /// What the page is, if it is mapped and the only one that is locked.
    pub(crate) fn attributes(&self, page: u64) -> Option<Attributes> {
        debug_assert_eq!(self.pages, Pages::new(page, 1));
        match self.top {
            // SAFETY: it is locked.
            Any::Leaf(leaf) => unsafe { leaf.with_codes(|codes| codes.get(leaf.slot(page))) },
            Any::Branch(branch) => branch.extents().find(page),
        }
    }

    /// The frame of a page that is present.
    pub(crate) fn frame<M: Machine>(&self, page: u64) -> Option<Frame> {
        let mut found = None;
        self.for_each_leaf(|leaf| {
            for (_, _, frame) in leaf.present_in::<M::Format>(Pages::new(page, 1)) {
                found = Some(frame);
            }
        });
        found
    }
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        unlock(self.top, self.pages);
    }
}

/// Locks a node and those below that have any of these pages, in the order of their pages: whoever locks
/// more than one node does so in this order.
// The compiler would call what is recursive, for a leaf as well: two nanoseconds of sixty.
#[inline(always)]
pub(crate) fn lock<M: Machine>(node: Any<'_>, pages: Pages, platform: &M::Platform) {
    if !is_mutant!("locks_below_first") {
        node.node().lock(platform);
    }
    if let Any::Branch(branch) = node {
        lock_below::<M>(branch, pages, platform);
    }
    if is_mutant!("locks_below_first") {
        node.node().lock(platform);
    }
}

fn lock_below<M: Machine>(branch: &Branch, pages: Pages, platform: &M::Platform) {
    branch.children(pages).for_each(|child| lock::<M>(child, pages, platform));
}

/// Unlocks them: children first, as there may be more as soon as their parent is not locked.
// As `lock`.
#[inline(always)]
fn unlock(node: Any<'_>, pages: Pages) {
    if is_mutant!("unlocks_above_first") {
        node.node().unlock();
        // Where loom does not look for a switch by itself.
        give_way();
    }
    if let Any::Branch(branch) = node {
        unlock_below(branch, pages);
    }
    if !is_mutant!("unlocks_above_first") {
        node.node().unlock();
    }
}

fn unlock_below(branch: &Branch, pages: Pages) {
    branch.children(pages).for_each(|child| unlock(child, pages));
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
            lineage: Lineage::new(),
            forking: Forking::new(),
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

    /// Whether CPUs have forgotten what was unmapped with this ticket.
    pub(crate) fn is_over(&self, ticket: u64, ticks: &Ticks) -> bool {
        // Acquire: it was over before it was said.
        ticket < self.settled.0.load(Acquire) || ticks.is_over(ticket, &self.active)
    }

    /// Has CPUs forget all that was unmapped until now.
    pub(crate) fn settle<M: Machine>(&self, cpu: &Cpu<'_, M>, ticks: &Ticks) {
        let now = ticks.now();
        self.shoot_down(cpu, Flush::All);
        self.settled.0.fetch_max(now, AcqRel);
    }

    /// Whether no CPU but this one may know pages of it.
    pub(crate) fn is_of_one(&self, cpu: usize) -> bool {
        self.active.iter().all(|other| other == cpu)
    }

    /// Has CPUs forget what they know of these pages.
    pub(crate) fn shoot_down<M: Machine>(&self, cpu: &Cpu<'_, M>, pages: Flush) {
        // SAFETY: a `Cpu` stays on its CPU; the caller has no locks.
        unsafe { cpu.machine().shoot_down(cpu.number(), &self.active, self.number, pages) };
    }

    /// Locks what has all that is known of these pages. Under an epoch.
    #[inline]
    pub(crate) fn lock_pages<M: Machine>(&self, machine: &M, pages: Pages) -> Locked<'_> {
        loop {
            let (top, above) = self.lowest(pages);
            lock::<M>(top, pages, machine.epoch().platform());
            let locked = Locked { top, pages };
            // What others have done before we had the lock.
            let node = top.node();
            let is_lowest = match top {
                Any::Leaf(_) => true,
                Any::Branch(branch) => is_end(branch, pages),
            };
            let is_lowest = is_lowest || is_mutant!("lock_not_lowest");
            // From the root down, as what branches say moves down meanwhile.
            let mut above = above.into_iter().flatten();
            let is_below = above.any(|branch| branch.overlaps(pages));
            let is_below = is_below && !is_mutant!("lock_not_above");
            if is_lowest && !node.is_stray() && !is_below {
                return locked;
            }
        }
    }

    /// The lowest node that has all that is known of these pages, at this moment, and the branches above it,
    /// the root first.
    #[inline]
    fn lowest(&self, pages: Pages) -> (Any<'_>, [Option<&Branch>; MOST_ABOVE]) {
        let (mut above, mut count) = ([None; MOST_ABOVE], 0);
        let (mut branch, mut level) = (&self.root, self.root.level());
        loop {
            let slot = slot_at(level, pages.start);
            if slot != slot_at(level, pages.end - 1) || branch.overlaps(pages) {
                return (Any::Branch(branch), above);
            }
            // SAFETY: the root's level is as it was found, and that of a child is the one below.
            let Some(child) = (unsafe { branch.child_of_level(level, slot) }) else {
                return (Any::Branch(branch), above);
            };
            above[count] = Some(branch);
            match child {
                Any::Branch(child) => (branch, level, count) = (child, level - 1, count + 1),
                leaf => return (leaf, above),
            }
        }
    }

    /// Calls `step` with the pages locked until it lacks nothing, and when no CPU knows what was there before.
    #[inline]
    pub(crate) fn locked<M: Machine, R>(
        &self,
        cpu: &Cpu<'_, M>,
        pages: Pages,
        step: impl FnMut(&Locked<'_>, &mut Spare) -> Result<R, Lack>,
    ) -> Result<R, OutOfMemory> {
        self.locked_as::<M, R, false>(cpu, pages, step).map(|(result, _)| result)
    }

    /// The same with all nodes, and nobody else begins to change anything until what is returned is dropped: from
    /// the first try on, so that there are few flushes to wait for.
    pub(crate) fn locked_alone<M: Machine, R>(
        &self,
        cpu: &Cpu<'_, M>,
        step: impl FnMut(&Locked<'_>, &mut Spare) -> Result<R, Lack>,
    ) -> Result<(R, Alone<'_>), OutOfMemory> {
        let (result, alone) = self.locked_as::<M, R, true>(cpu, self.pages(), step)?;
        Ok((result, alone.expect("all nodes were locked")))
    }

    #[inline]
    fn locked_as<M: Machine, R, const ALONE: bool>(
        &self,
        cpu: &Cpu<'_, M>,
        pages: Pages,
        mut step: impl FnMut(&Locked<'_>, &mut Spare) -> Result<R, Lack>,
    ) -> Result<(R, Option<Alone<'_>>), OutOfMemory> {
        let machine = cpu.machine();
        let (mut alone, mut turn, mut has_stocked) = (None, None, false);
        loop {
            let result = {
                let _guard = cpu.pin();
                let locked = self.lock_pages(machine, pages);
                let leaf = known::<M>(locked.top, pages);
                let flushes = |leaf: &Leaf| leaf.is_flushing() && !is_mutant!("no_wait_for_flush");
                let is_flushing = leaf.is_some_and(flushes);
                let forks =
                    alone.is_none() && self.forking.is_on() && !is_mutant!("no_wait_for_fork");
                if forks {
                    turn.get_or_insert_with(|| self.forking.turn());
                    drop(locked);
                    // SAFETY: a `Cpu` stays on its CPU, and we have no locks.
                    unsafe { machine.wait_while(cpu.number(), || self.forking.is_on()) };
                    continue;
                }
                if ALONE && alone.is_none() {
                    if turn.is_none() && self.forking.is_others_turn() {
                        drop(locked);
                        // SAFETY: as above.
                        unsafe {
                            machine.wait_while(cpu.number(), || self.forking.is_others_turn());
                        }
                        continue;
                    }
                    let is_late = is_flushing && is_mutant!("forks_last");
                    alone = (!is_late).then(|| self.forking.begin());
                }
                turn = None;
                if is_flushing {
                    drop(locked);
                    let waits = || leaf.is_some_and(flushes);
                    // SAFETY: as above.
                    unsafe { machine.wait_while(cpu.number(), waits) };
                    continue;
                }
                match leaf.is_some_and(|leaf| !leaf.is_flushing()) {
                    true => {
                        let mut removal = Removal::of_unmapped();
                        locked.for_each_leaf(|leaf| removal.settle(self, machine, leaf, pages));
                        Err(removal)
                    }
                    false => Ok(cpu.with_spare(|spare| step(&locked, spare))),
                }
            };
            let result = match result {
                Ok(result) => result,
                Err(removal) => {
                    // SAFETY: what lingers is of pages that are not mapped.
                    unsafe { removal.finish(self, cpu) };
                    continue;
                }
            };
            cpu.defer();
            match result {
                Ok(result) => {
                    if has_stocked {
                        cpu.with_spare(Spare::free_rest);
                    }
                    return Ok((result, alone));
                }
                Err(lack) => {
                    // Who has memory to give may be one who waits; and yet we are next.
                    if alone.take().is_some() {
                        turn = Some(self.forking.turn());
                    }
                    cpu.stock(lack)?;
                    has_stocked = true;
                }
            }
        }
    }

    /// Waits until nobody else moves pages, as long as the result is there. Under locks of nodes, which others
    /// that have this do not wait for.
    pub(crate) fn alone_to_move(&self, platform: &impl Platform) -> AloneToMove<'_> {
        if !is_mutant!("moves_together") {
            platform.wait_while(|| self.moving.swap(true, Acquire));
        }
        AloneToMove(self)
    }

    /// Another user has come.
    ///
    /// # Safety
    /// There is one who does not leave meanwhile.
    pub(crate) unsafe fn visit(&self) {
        self.users.0.fetch_add(1, Relaxed);
    }

    /// A user leaves; the last frees it.
    ///
    /// # Safety
    /// The caller is a user of a tree that came from a box, and no CPU goes to its pages after the last.
    pub(crate) unsafe fn leave<M: Machine>(tree: NonNull<Tree>, machine: &M) {
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

/// See [`Tree::alone_to_move`].
pub(crate) struct AloneToMove<'a>(&'a Tree);

impl Drop for AloneToMove<'_> {
    fn drop(&mut self) {
        self.0.moving.store(false, Release);
    }
}

/// Whether what is known of these pages ends in this branch: some of its extents have any, or not all
/// of them are in one child.
#[inline]
fn is_end(branch: &Branch, pages: Pages) -> bool {
    !branch.is_one_slot(pages)
        || branch.overlaps(pages)
        || branch.child(branch.slot(pages.start)).is_none()
}

/// A leaf of which CPUs may know what was there before: it is being flushed, or some of these pages linger. At a
/// node that is locked or below.
#[inline]
fn known<M: Machine>(node: Any<'_>, pages: Pages) -> Option<&Leaf> {
    match node {
        Any::Leaf(leaf) => {
            let mut lingering = leaf.leaving_in::<M::Format>(pages);
            let mut lingers = || lingering.next().is_some() && !is_mutant!("maps_what_lingers");
            (leaf.is_flushing() || lingers()).then_some(leaf)
        }
        Any::Branch(branch) => known_below::<M>(branch, pages),
    }
}

fn known_below<M: Machine>(branch: &Branch, pages: Pages) -> Option<&Leaf> {
    branch.children(pages).find_map(|child| known::<M>(child, pages))
}

/// Frees what a branch has.
///
/// # Safety
/// Nobody uses the branch or anything below.
unsafe fn free_below<M: Machine>(machine: &M, branch: &Branch) {
    for child in branch.children(branch.span()) {
        let node = branch.pointer(branch.slot(child.node().span().start));
        match child {
            Any::Branch(child) => {
                // SAFETY: it was made by a box, and the caller says that nobody uses it.
                unsafe {
                    free_below(machine, child);
                    drop(Box::from_raw(node.cast::<Branch>().as_ptr()));
                }
            }
            Any::Leaf(leaf) => {
                let entries = leaf.table().into_iter().flatten();
                let frames =
                    entries.filter_map(|entry| match M::Format::read(entry.load(Relaxed), 0) {
                        // What lingers as well: CPUs have left.
                        Entry::Page { frame, .. }
                        | Entry::Parked(frame)
                        | Entry::Leaving(frame) => Some(frame),
                        _ => None,
                    });
                for frame in frames {
                    if machine.note(frame).release() {
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
