//! Memory for trees, allocated before an operation takes locks.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::mem::{self, MaybeUninit};
use core::ptr::NonNull;

use knee_sync::Platform;
use knee_sync::epoch::Handle;

use crate::allocate::{try_box, try_box_uninit};
use crate::error::OutOfMemory;
use crate::machine::frame_pool::FramePool;
use crate::machine::{Machine, table_at};
use crate::needed::{Lack, Nodes};
use crate::page::Frame;
use crate::tree::extents::Extents;
use crate::tree::latch::Copies;
use crate::tree::node::{Branch, Leaf};
use crate::tree::page_states::Kinds;

/// A branch has at most this many extents in most cases.
const FEW: usize = 8;

/// What a CPU has allocated for trees.
#[derive(Debug, Default)]
pub(crate) struct TreePool {
    // Boxed, as nodes stay where they are.
    #[expect(clippy::vec_box)]
    leaves: Vec<Box<MaybeUninit<Leaf>>>,
    branches: Vec<Box<Branch>>,
    tables: Vec<Frame>,
    /// A branch's extents while an operation changes them.
    extents: Extents,
    // Boxed, as they are published by their address.
    #[expect(clippy::vec_box)]
    copies: Vec<Box<Copies>>,
    kinds: Vec<Kinds>,
    /// Latches that were replaced, and that readers may use until a grace period is over. The capacity is at least
    /// the length of `copies`.
    retired: Vec<NonNull<Copies>>,
}

impl TreePool {
    /// A leaf that is locked.
    pub(crate) fn leaf(&mut self, first: u64, parent: &Branch) -> Result<NonNull<Leaf>, Lack> {
        let mut leaf = self.leaves.pop().ok_or(Nodes::LEAF)?;
        leaf.write(Leaf::new(first, NonNull::from(parent)));
        // SAFETY: it is written.
        Ok(NonNull::from(Box::leak(unsafe { leaf.assume_init() })))
    }

    /// A branch with a table that is locked.
    pub(crate) fn branch<M: Machine>(
        &mut self,
        machine: &M,
        first: u64,
        parent: &Branch,
    ) -> Result<NonNull<Branch>, Lack> {
        if self.tables.is_empty() {
            return Err(Nodes::BRANCH);
        }
        let mut branch = self.branches.pop().ok_or(Nodes::BRANCH)?;
        branch.begin(parent.level() - 1, first, NonNull::from(parent));
        let frame = self.table()?;
        // SAFETY: nobody else knows the branch, which has no table; the frame is zeroed and ours.
        unsafe { branch.set_table(frame, table_at(machine, frame)) };
        Ok(NonNull::from(Box::leak(branch)))
    }

    /// A frame of absent entries.
    pub(crate) fn table(&mut self) -> Result<Frame, Lack> {
        self.tables.pop().ok_or(Nodes::TABLE)
    }

    /// Whether there are so many.
    pub(crate) fn has_nodes(&self, nodes: Nodes) -> Result<(), Lack> {
        let have = self.leaves.len() >= nodes.leaves
            && self.branches.len() >= nodes.branches
            && self.tables.len() >= nodes.tables;
        if have { Ok(()) } else { Err(Lack::Nodes(nodes)) }
    }

    /// Calls `with` with extents that are the caller's for the time, if they have this room.
    pub(crate) fn with_extents<R>(
        &mut self,
        room: usize,
        with: impl FnOnce(&mut Extents, &mut TreePool) -> Result<R, Lack>,
    ) -> Result<R, Lack> {
        self.has_extents(0, room)?;
        let mut extents = mem::take(&mut self.extents);
        let result = with(&mut extents, self);
        self.extents = extents;
        result
    }

    /// Copies of none with this room, if there are any: those with the least.
    pub(crate) fn copies(&mut self, room: usize) -> Result<Box<Copies>, Lack> {
        let fit = self.copies.iter().enumerate().filter(|(_, copies)| copies.room() >= room);
        let least = fit.min_by_key(|(_, copies)| copies.room());
        let (place, _) = least.ok_or(Lack::Extents { copies: 1, room })?;
        Ok(self.copies.swap_remove(place))
    }

    /// Frees copies that were not needed, but for those of a branch with few extents.
    #[inline]
    pub(crate) fn free_rest(&mut self) {
        match &self.copies[..] {
            [] => (),
            [copies] if copies.room() <= FEW => (),
            _ => self.copies.clear(),
        }
    }

    /// Whether there is this room for extents, and so many copies with this room.
    pub(crate) fn has_extents(&self, copies: usize, room: usize) -> Result<(), Lack> {
        let have = || self.copies.iter().filter(|copies| copies.room() >= room).count();
        match self.extents.room() >= room && (copies == 0 || have() >= copies) {
            true => Ok(()),
            false => Err(Lack::Extents { copies, room }),
        }
    }

    /// An empty list, if there is one with this room.
    pub(crate) fn kinds(&mut self, room: usize) -> Result<Kinds, Lack> {
        let place = self.kinds.iter().position(|kinds| kinds.capacity() >= room);
        let place = place.ok_or(Lack::Kinds { count: 1, room })?;
        Ok(self.kinds.swap_remove(place))
    }

    /// Whether there are so many lists of kinds with this room.
    pub(crate) fn has_kinds(&self, count: usize, room: usize) -> Result<(), Lack> {
        let have = self.kinds.iter().filter(|kinds| kinds.capacity() >= room).count();
        if have >= count { Ok(()) } else { Err(Lack::Kinds { count, room }) }
    }

    /// What others may read still, and has made way for copies that were here.
    pub(crate) fn retire(&mut self, old: Option<NonNull<Copies>>) {
        debug_assert!(self.retired.len() < self.retired.capacity(), "there is as much room");
        self.retired.extend(old);
    }

    /// Allocates nodes until there are this many.
    pub(crate) fn refill_nodes<M: Machine>(
        &mut self,
        machine: &M,
        nodes: Nodes,
        frames: &mut FramePool,
    ) -> Result<(), OutOfMemory> {
        let Nodes { leaves, branches, tables } = nodes;
        self.leaves.try_reserve(leaves)?;
        while self.leaves.len() < leaves {
            self.leaves.push(try_box_uninit()?);
        }
        self.branches.try_reserve(branches)?;
        while self.branches.len() < branches {
            self.branches.push(try_box(Branch::blank())?);
        }
        self.tables.try_reserve(tables)?;
        while self.tables.len() < tables {
            self.tables.push(frames.zeroed(machine)?);
        }
        Ok(())
    }

    /// Allocates latches with this room until there are `copies`, and makes room for a branch's extents.
    pub(crate) fn refill_extents(&mut self, copies: usize, room: usize) -> Result<(), OutOfMemory> {
        self.extents.make_room(room)?;
        // A smaller latch does not satisfy the request.
        self.copies.retain(|copies| copies.room() >= room);
        let missing = copies.saturating_sub(self.copies.len());
        self.copies.try_reserve(missing)?;
        self.retired.try_reserve(self.copies.len() + missing)?;
        for _ in 0..missing {
            self.copies.push(try_box(Copies::with_room(room)?)?);
        }
        Ok(())
    }

    /// Allocates `count` palettes with this room.
    pub(crate) fn refill_kinds(&mut self, count: usize, room: usize) -> Result<(), OutOfMemory> {
        // A smaller palette does not satisfy the next request either.
        self.kinds.clear();
        self.kinds.try_reserve(count)?;
        for _ in 0..count {
            self.kinds.push(Kinds::with_room(room)?);
        }
        Ok(())
    }

    /// Frees what was retired after a grace period.
    #[inline]
    pub(crate) fn defer<P: Platform>(&mut self, epoch: &Handle<'_, P>) {
        while let Some(old) = self.retired.pop() {
            // SAFETY: it came from a box, and was replaced: nobody finds it any more.
            unsafe { epoch.retire_entry(Copies::entry(old), Copies::free) };
        }
    }

    /// Tables that were not used.
    pub(crate) fn drain_tables(&mut self) -> impl Iterator<Item = Frame> {
        self.tables.drain(..)
    }
}
