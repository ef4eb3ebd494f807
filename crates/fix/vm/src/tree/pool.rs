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
use crate::needed::{Needed, Nodes};
use crate::page::{Frame, Page};
use crate::tree::extents::Extents;
use crate::tree::latch::ExtentLatch;
use crate::tree::node::{Branch, Leaf};
use crate::tree::page_states::StatePalette;

/// Most branches have at most this many extents.
const FEW: usize = 8;

/// Memory that a CPU has allocated for trees.
#[derive(Debug, Default)]
pub(crate) struct TreePool {
    // Boxed, because nodes must not move.
    #[expect(clippy::vec_box)]
    leaves: Vec<Box<MaybeUninit<Leaf>>>,
    branches: Vec<Box<Branch>>,
    tables: Vec<Frame>,
    /// The working copy of a branch's extents during a change.
    extents: Extents,
    // Boxed, because latches are published by address.
    #[expect(clippy::vec_box)]
    latches: Vec<Box<ExtentLatch>>,
    palettes: Vec<StatePalette>,
    /// Replaced latches. They must be retired, because readers may still use them. For each latch in
    /// `latches`, a refill reserves room for one replaced latch in this list.
    retired: Vec<NonNull<ExtentLatch>>,
}

impl TreePool {
    /// Takes a leaf from the pool. The leaf is already locked.
    pub(crate) fn leaf(&mut self, first: Page, parent: &Branch) -> Result<NonNull<Leaf>, Needed> {
        let mut leaf = self.leaves.pop().ok_or(Nodes::LEAF)?;
        leaf.write(Leaf::new(first, NonNull::from(parent)));
        // SAFETY: `leaf` was initialized above.
        Ok(NonNull::from(Box::leak(unsafe { leaf.assume_init() })))
    }

    /// Takes a branch from the pool. The branch has a table and is already locked.
    pub(crate) fn branch<M: Machine>(
        &mut self,
        machine: &M,
        first: Page,
        parent: &Branch,
    ) -> Result<NonNull<Branch>, Needed> {
        if self.tables.is_empty() {
            return Err(Nodes::BRANCH);
        }
        let mut branch = self.branches.pop().ok_or(Nodes::BRANCH)?;
        branch.begin(parent.level() - 1, first, NonNull::from(parent));
        let frame = self.table()?;
        // SAFETY: the branch is not published and has no table; the frame is zeroed and belongs to the
        // pool.
        unsafe { branch.set_table(frame, table_at(machine, frame)) };
        Ok(NonNull::from(Box::leak(branch)))
    }

    /// Takes a table from the pool. All its entries are absent.
    pub(crate) fn table(&mut self) -> Result<Frame, Needed> {
        self.tables.pop().ok_or(Nodes::TABLE)
    }

    /// Succeeds if the pool has at least these numbers of nodes and tables.
    pub(crate) fn has_nodes(&self, nodes: Nodes) -> Result<(), Needed> {
        let have = self.leaves.len() >= nodes.leaves
            && self.branches.len() >= nodes.branches
            && self.tables.len() >= nodes.tables;
        if have { Ok(()) } else { Err(Needed::Nodes(nodes)) }
    }

    /// Lends the working copy of extents to `with`. Fails if the capacity of the copy is below `room`.
    pub(crate) fn with_extents<R>(
        &mut self,
        room: usize,
        with: impl FnOnce(&mut Extents, &mut TreePool) -> Result<R, Needed>,
    ) -> Result<R, Needed> {
        self.has_extents(0, room)?;
        let mut extents = mem::take(&mut self.extents);
        let result = with(&mut extents, self);
        self.extents = extents;
        result
    }

    /// Takes the smallest latch whose capacity is at least `room` extents. The latch is empty.
    pub(crate) fn latch(&mut self, room: usize) -> Result<Box<ExtentLatch>, Needed> {
        let fit = self.latches.iter().enumerate().filter(|(_, latch)| latch.room() >= room);
        let least = fit.min_by_key(|(_, latch)| latch.room());
        let (place, _) = least.ok_or(Needed::Extents { latches: 1, room })?;
        Ok(self.latches.swap_remove(place))
    }

    /// Frees all unused latches, unless there is only one and it is small.
    #[inline]
    pub(crate) fn free_rest(&mut self) {
        match &self.latches[..] {
            [] => (),
            [latch] if latch.room() <= FEW => (),
            _ => self.latches.clear(),
        }
    }

    /// Succeeds if the working copy and at least `latches` latches have a capacity of at least `room`.
    pub(crate) fn has_extents(&self, latches: usize, room: usize) -> Result<(), Needed> {
        let have = || self.latches.iter().filter(|latch| latch.room() >= room).count();
        match self.extents.room() >= room && (latches == 0 || have() >= latches) {
            true => Ok(()),
            false => Err(Needed::Extents { latches, room }),
        }
    }

    /// Takes an empty palette with a capacity of at least `room`.
    pub(crate) fn palette(&mut self, room: usize) -> Result<StatePalette, Needed> {
        let place = self.palettes.iter().position(|palette| palette.capacity() >= room);
        let place = place.ok_or(Needed::Palettes { count: 1, room })?;
        Ok(self.palettes.swap_remove(place))
    }

    /// Succeeds if at least `count` palettes have a capacity of at least `room`.
    pub(crate) fn has_palettes(&self, count: usize, room: usize) -> Result<(), Needed> {
        let have = self.palettes.iter().filter(|palette| palette.capacity() >= room).count();
        if have >= count { Ok(()) } else { Err(Needed::Palettes { count, room }) }
    }

    /// Keeps a replaced latch until [`defer`](TreePool::defer). The latch that replaces `old` must have come
    /// from this pool: a refill reserves room for one replaced latch for each latch of the pool.
    pub(crate) fn retire(&mut self, old: Option<NonNull<ExtentLatch>>) {
        debug_assert!(self.retired.len() < self.retired.capacity(), "the refill reserved room");
        self.retired.extend(old);
    }

    /// Allocates nodes and tables until the pool has as many as `nodes` requires.
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

    /// Allocates latches with a capacity of `room` until the pool has `latches` of them. Gives the working
    /// copy the same capacity.
    pub(crate) fn refill_extents(
        &mut self,
        latches: usize,
        room: usize,
    ) -> Result<(), OutOfMemory> {
        self.extents.make_room(room)?;
        // Drop latches that are too small for the request.
        self.latches.retain(|latch| latch.room() >= room);
        let missing = latches.saturating_sub(self.latches.len());
        self.latches.try_reserve(missing)?;
        self.retired.try_reserve(self.latches.len() + missing)?;
        for _ in 0..missing {
            self.latches.push(try_box(ExtentLatch::with_room(room)?)?);
        }
        Ok(())
    }

    /// Replaces the pool's palettes with `count` new ones that have a capacity of `room`.
    pub(crate) fn refill_palettes(&mut self, count: usize, room: usize) -> Result<(), OutOfMemory> {
        // The old palettes are too few or too small for the request.
        self.palettes.clear();
        self.palettes.try_reserve(count)?;
        for _ in 0..count {
            self.palettes.push(StatePalette::with_room(room)?);
        }
        Ok(())
    }

    /// Hands retired latches to the epoch, which frees them after a grace period.
    #[inline]
    pub(crate) fn defer<P: Platform>(&mut self, epoch: &Handle<'_, P>) {
        while let Some(old) = self.retired.pop() {
            // SAFETY: the latch came from a box, and was replaced, so no new reader can find it.
            unsafe { epoch.retire_entry(ExtentLatch::entry(old), ExtentLatch::free) };
        }
    }

    /// Takes all unused tables.
    pub(crate) fn drain_tables(&mut self) -> impl Iterator<Item = Frame> {
        self.tables.drain(..)
    }
}
