//! What a CPU has for itself: its part in the epoch, and what operations will need.

use alloc::alloc::{Layout, alloc};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::cell::RefCell;
use core::mem::{self, MaybeUninit};
use core::ptr::NonNull;

use knee_sync::epoch::{Guard, Handle};

use crate::backing::Backing;
use crate::codes::Kinds;
use crate::error::OutOfMemory;
use crate::extents::Extents;
use crate::machine::Machine;
use crate::node::{Branch, Leaf, Node, Table};
use crate::object::Block;
use crate::page::{Frame, PAGE};
use crate::published::Copies;
use crate::tree::Tree;

/// Extents that a branch has mostly, or less.
const FEW: usize = 8;
/// Frames that a CPU takes from the machine at once, and gives back at once.
const BATCH: usize = 32;

/// A CPU of a machine. It stays on its thread, as kernels have one in the data of each CPU.
#[derive(Debug)]
pub struct Cpu<'m, M: Machine> {
    machine: &'m M,
    number: usize,
    epoch: Handle<'m, M::Platform>,
    spare: RefCell<Spare>,
}

/// What an operation finds missing while it has locks. It gives them back, gets that, and begins anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lack {
    /// Nothing: the tree has changed.
    Nothing,
    /// So many nodes of a tree.
    Nodes(Nodes),
    /// Extents with room for so many, and so many copies of a branch's with room for as many.
    Extents { copies: usize, room: usize },
    /// So many lists of kinds with room for so many.
    Kinds { count: usize, room: usize },
    /// A page of zeros.
    Page,
    /// A table of an object.
    Block,
    /// So many backings.
    Backings(usize),
}

/// Numbers of what a tree is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Nodes {
    pub(crate) leaves: usize,
    pub(crate) branches: usize,
    /// Frames of absent entries.
    pub(crate) tables: usize,
}

impl Nodes {
    const LEAF: Lack = Lack::Nodes(Nodes { leaves: 1, branches: 0, tables: 0 });
    const BRANCH: Lack = Lack::Nodes(Nodes { leaves: 0, branches: 1, tables: 1 });
    const TABLE: Lack = Lack::Nodes(Nodes { leaves: 0, branches: 0, tables: 1 });
}

/// What was allocated before it was known whether it will be needed.
#[derive(Debug, Default)]
pub(crate) struct Spare {
    // Boxed, as nodes stay where they are.
    #[expect(clippy::vec_box)]
    leaves: Vec<Box<MaybeUninit<Leaf>>>,
    branches: Vec<Box<Branch>>,
    tables: Vec<Frame>,
    /// Zeroed.
    page: Option<Frame>,
    /// Those of a branch while they are changed.
    extents: Extents,
    // Boxed, as they are published by their address.
    #[expect(clippy::vec_box)]
    copies: Vec<Box<Copies>>,
    kinds: Vec<Kinds>,
    block: Option<Box<Block>>,
    // Boxed, as backings stay where they are.
    #[expect(clippy::vec_box)]
    backings: Vec<Box<MaybeUninit<Backing>>>,
    /// Those that others may read until an epoch is over. There is room for as many as there are in
    /// `copies`.
    retired: Vec<NonNull<Copies>>,
    frames: Vec<Frame>,
}

// SAFETY: what was retired is the owner's alone but for reads.
unsafe impl Send for Spare {}

/// A box, or none if there is no memory.
pub(crate) fn try_box<T>(value: T) -> Result<Box<T>, OutOfMemory> {
    let mut new = try_box_uninit::<T>()?;
    new.write(value);
    // SAFETY: it is written.
    Ok(unsafe { new.assume_init() })
}

fn try_box_uninit<T>() -> Result<Box<MaybeUninit<T>>, OutOfMemory> {
    // SAFETY: no type that is boxed here has size zero.
    let new = unsafe { alloc(Layout::new::<T>()) }.cast::<MaybeUninit<T>>();
    // SAFETY: it was allocated as a box of `T` is, and needs no content.
    NonNull::new(new).map(|new| unsafe { Box::from_raw(new.as_ptr()) }).ok_or(OutOfMemory)
}

impl Spare {
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

    /// A frame of zeros.
    pub(crate) fn page(&mut self) -> Result<Frame, Lack> {
        self.page.take().ok_or(Lack::Page)
    }

    /// Whether there is one.
    pub(crate) fn has_page(&self) -> Result<(), Lack> {
        if self.page.is_some() { Ok(()) } else { Err(Lack::Page) }
    }

    /// Takes back what was not needed, and is zero still.
    pub(crate) fn keep_page(&mut self, page: Frame) {
        debug_assert!(self.page.is_none(), "there is one");
        self.page = Some(page);
    }

    /// Calls `with` with extents that are the caller's for the time, if they have this room.
    pub(crate) fn with_extents<R>(
        &mut self,
        room: usize,
        with: impl FnOnce(&mut Extents, &mut Spare) -> Result<R, Lack>,
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

    /// Memory of zeros.
    pub(crate) fn block(&mut self) -> Result<Box<Block>, Lack> {
        self.block.take().ok_or(Lack::Block)
    }

    /// Takes back what was not needed.
    pub(crate) fn keep_block(&mut self, block: Box<Block>) {
        self.block = Some(block);
    }

    /// A backing that stays where it is.
    pub(crate) fn backing(&mut self, backing: Backing) -> Result<NonNull<Backing>, Lack> {
        let mut new = self.backings.pop().ok_or(Lack::Backings(1))?;
        new.write(backing);
        // SAFETY: it is written.
        Ok(NonNull::from(Box::leak(unsafe { new.assume_init() })))
    }

    /// Whether there are so many.
    pub(crate) fn has_backings(&self, count: usize) -> Result<(), Lack> {
        if self.backings.len() >= count { Ok(()) } else { Err(Lack::Backings(count)) }
    }

    /// What others may read still, and has made way for copies that were here.
    pub(crate) fn retire(&mut self, old: Option<NonNull<Copies>>) {
        debug_assert!(self.retired.len() < self.retired.capacity(), "there is as much room");
        self.retired.extend(old);
    }
}

/// A frame's entries.
pub(crate) fn table_at<M: Machine>(machine: &M, frame: Frame) -> NonNull<Table> {
    machine.address(frame).cast()
}

impl<'m, M: Machine> Cpu<'m, M> {
    /// The CPU of this number.
    ///
    /// # Panics
    /// If the machine has no such CPU.
    ///
    /// # Safety
    /// Nobody else is this CPU at the same time, and what has it runs on it.
    pub unsafe fn new(machine: &'m M, number: usize) -> Cpu<'m, M> {
        assert!(number < machine.cpus(), "the machine has {} CPUs", machine.cpus());
        let epoch = machine.epoch().register();
        Cpu { machine, number, epoch, spare: RefCell::new(Spare::default()) }
    }

    /// Its number.
    pub fn number(&self) -> usize {
        self.number
    }

    /// The machine.
    pub fn machine(&self) -> &'m M {
        self.machine
    }

    /// What is found in a space's tree stays until the guard is dropped.
    #[inline]
    pub(crate) fn pin(&self) -> Guard<'_, M::Platform> {
        self.epoch.pin()
    }

    /// Calls `with` with what there is, which it uses within the call.
    #[inline]
    pub(crate) fn with_spare<R>(&self, with: impl FnOnce(&mut Spare) -> R) -> R {
        with(&mut self.spare.borrow_mut())
    }

    /// Gets what was missing. Without locks, and outside of the epoch.
    #[cold]
    pub(crate) fn stock(&self, lack: Lack) -> Result<(), OutOfMemory> {
        let spare = &mut *self.spare.borrow_mut();
        match lack {
            Lack::Nothing => (),
            Lack::Nodes(Nodes { leaves, branches, tables }) => {
                spare.leaves.try_reserve(leaves)?;
                while spare.leaves.len() < leaves {
                    spare.leaves.push(try_box_uninit()?);
                }
                spare.branches.try_reserve(branches)?;
                while spare.branches.len() < branches {
                    spare.branches.push(try_box(Branch::blank())?);
                }
                spare.tables.try_reserve(tables)?;
                while spare.tables.len() < tables {
                    let table = self.zeroed(&mut spare.frames)?;
                    spare.tables.push(table);
                }
            }
            Lack::Extents { copies, room } => {
                spare.extents.make_room(room)?;
                // Those with less room are not what is asked for.
                spare.copies.retain(|copies| copies.room() >= room);
                let lacks = copies.saturating_sub(spare.copies.len());
                spare.copies.try_reserve(lacks)?;
                spare.retired.try_reserve(spare.copies.len() + lacks)?;
                for _ in 0..lacks {
                    spare.copies.push(try_box(Copies::with_room(room)?)?);
                }
            }
            Lack::Page if spare.page.is_some() => (),
            Lack::Page => spare.page = Some(self.zeroed(&mut spare.frames)?),
            Lack::Block if spare.block.is_some() => (),
            Lack::Block => spare.block = Some(try_box(Block::zeroed())?),
            Lack::Backings(count) => {
                spare.backings.try_reserve(count)?;
                while spare.backings.len() < count {
                    spare.backings.push(try_box_uninit()?);
                }
            }
            Lack::Kinds { count, room } => {
                // Those with less room will not be asked for again.
                spare.kinds.clear();
                spare.kinds.try_reserve(count)?;
                for _ in 0..count {
                    spare.kinds.push(Kinds::with_room(room)?);
                }
            }
        }
        Ok(())
    }

    /// A tree whose root has a table.
    pub(crate) fn tree(&self, tree: Tree) -> Result<NonNull<Tree>, OutOfMemory> {
        self.stock(Nodes::TABLE)?;
        let tree = try_box(tree)?;
        let frame = self.spare.borrow_mut().tables.pop().ok_or(OutOfMemory)?;
        self.machine.begin_root(frame);
        // SAFETY: nobody else knows it, and it has none; the frame is zeroed and ours.
        unsafe { tree.root().set_table(frame, table_at(self.machine, frame)) };
        Ok(NonNull::from(Box::leak(tree)))
    }

    /// Gets a page of zeros if there is none, and there is one to be had.
    #[inline]
    pub(crate) fn stock_page(&self) {
        let spare = &mut *self.spare.borrow_mut();
        if spare.page.is_none() {
            spare.page = self.zeroed(&mut spare.frames).ok();
        }
    }

    /// A frame of zeros.
    fn zeroed(&self, frames: &mut Vec<Frame>) -> Result<Frame, OutOfMemory> {
        if frames.is_empty() {
            frames.try_reserve(2 * BATCH)?;
            let mut new = [Frame(0); BATCH];
            let count = self.machine.allocate(&mut new);
            frames.extend_from_slice(&new[..count]);
        }
        let frame = frames.pop().ok_or(OutOfMemory)?;
        if !M::ZEROED {
            // SAFETY: the frame is ours, of this size.
            unsafe { self.machine.address(frame).write_bytes(0, PAGE) };
        }
        Ok(frame)
    }

    /// Gives a frame back that no CPU can go to any more.
    ///
    /// # Safety
    /// As of [`Machine::free`].
    pub(crate) unsafe fn free(&self, frame: Frame) {
        let frames = &mut self.spare.borrow_mut().frames;
        if M::ZEROED || frames.capacity() < 2 * BATCH {
            // SAFETY: said by the caller.
            return unsafe { self.machine.free(&[frame]) };
        }
        if frames.len() == 2 * BATCH {
            // SAFETY: said by who gave them to us.
            unsafe { self.machine.free(&frames[BATCH..]) };
            frames.truncate(BATCH);
        }
        self.machine.reuse(frame);
        frames.push(frame);
    }

    /// Has a node freed when nobody looks at it any more.
    ///
    /// # Safety
    /// It came from a box, and was taken out of its tree.
    pub(crate) unsafe fn retire_node(&self, node: NonNull<Node>) {
        // SAFETY: said by the caller. A node of level 0 is a leaf.
        unsafe {
            let free = if node.as_ref().level() == 0 { Leaf::free } else { Branch::free };
            self.epoch.retire_entry(Node::entry(node), free);
        }
    }

    /// Has what was retired freed when nobody can read it any more.
    #[inline]
    pub(crate) fn defer(&self) {
        let mut spare = self.spare.borrow_mut();
        while let Some(old) = spare.retired.pop() {
            // SAFETY: it came from a box, and nobody finds it any more.
            unsafe { self.epoch.retire_entry(Copies::entry(old), Copies::free) };
        }
    }
}

impl<M: Machine> Drop for Cpu<'_, M> {
    fn drop(&mut self) {
        self.defer();
        let spare = self.spare.get_mut();
        let frames = spare.frames.iter().chain(&spare.tables).chain(&spare.page);
        for &frame in frames {
            // SAFETY: the frames are ours alone.
            unsafe { self.machine.free(&[frame]) };
        }
    }
}
