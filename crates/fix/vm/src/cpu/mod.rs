//! Per-CPU state: the epoch handle, and pools of preallocated memory.

use core::cell::{Cell, RefCell};
use core::marker::PhantomData;
use core::ptr::NonNull;

use knee_sync::epoch::{Guard, Handle};

use crate::backing::BackingPool;
use crate::backing::index::BlockPool;
use crate::error::OutOfMemory;
use crate::machine::Machine;
use crate::machine::frame_pool::FramePool;
use crate::needed::{Needed, Nodes};
use crate::page::Frame;
use crate::tree::node::{Branch, Leaf, Node};
use crate::tree::pool::TreePool;

/// A CPU of a machine. A kernel keeps a `Cpu` in the per-CPU data of each CPU. A `Cpu` must stay on its
/// CPU, so it is not `Send`:
///
/// ```compile_fail,E0277
/// fn is_send<T: Send>() {}
/// is_send::<knee_vm::Cpu<'static, knee_vm::hosted::Hosted>>();
/// ```
#[derive(Debug)]
pub struct Cpu<'m, M: Machine> {
    machine: &'m M,
    number: usize,
    epoch: Handle<'m, M::Platform>,
    pool: RefCell<PerCpuPool>,
    /// Whether a callback of an operation is running. A callback must not call another operation.
    in_callback: Cell<bool>,
    /// Neither `Send` nor `Sync`.
    stays_on_its_thread: PhantomData<*const ()>,
}

/// A CPU's pools of preallocated memory.
#[derive(Debug, Default)]
pub(crate) struct PerCpuPool {
    pub(crate) tree: TreePool,
    pub(crate) frames: FramePool,
    pub(crate) blocks: BlockPool,
    pub(crate) backings: BackingPool,
}

impl PerCpuPool {
    /// Checks that the pools have a leaf and its table. If `is_large`, the machine must also have been asked
    /// for a large page.
    pub(crate) fn has_leaf(&self, is_large: bool) -> Result<(), Needed> {
        let has_nodes = self.tree.has_nodes(Nodes::LEAF_AND_TABLE).is_ok();
        let is_ready = has_nodes && !(is_large && self.frames.needs_large_page());
        if is_ready { Ok(()) } else { Err(Needed::Leaf { is_large }) }
    }
}

impl<'m, M: Machine> Cpu<'m, M> {
    /// Creates the state of CPU `number`.
    ///
    /// # Panics
    /// If the machine has no such CPU.
    ///
    /// # Safety
    /// No other `Cpu` with this number may exist at the same time, and this one must be used only on CPU
    /// `number`.
    pub unsafe fn new(machine: &'m M, number: usize) -> Cpu<'m, M> {
        assert!(number < machine.cpus(), "the machine has {} CPUs", machine.cpus());
        let epoch = machine.epoch().register();
        let pool = RefCell::new(PerCpuPool::default());
        let in_callback = Cell::new(false);
        Cpu { machine, number, epoch, pool, in_callback, stays_on_its_thread: PhantomData }
    }

    /// Returns the CPU number.
    pub fn number(&self) -> usize {
        self.number
    }

    /// Returns the machine.
    pub fn machine(&self) -> &'m M {
        self.machine
    }

    /// Returns the machine's platform: fences and a clock.
    pub(crate) fn platform(&self) -> &'m M::Platform {
        self.machine.epoch().platform()
    }

    /// Enters a read-side critical section of the machine's [epoch](Machine::epoch). Objects retired
    /// meanwhile are not freed before the guard is dropped. The CPU must not call
    /// [`synchronize`](knee_sync::epoch::Domain::synchronize) within the section.
    #[inline]
    pub fn pin(&self) -> Guard<'_, M::Platform> {
        self.epoch.pin()
    }

    /// Passes the CPU's pools to `with`, which must not call another method that borrows the pools.
    #[inline]
    pub(crate) fn with_pool<R>(&self, with: impl FnOnce(&mut PerCpuPool) -> R) -> R {
        with(&mut self.pool.borrow_mut())
    }

    /// Runs an operation's callback. In debug builds, [`check`](Cpu::check) panics if it is called while the
    /// callback runs.
    pub(crate) fn callback<R>(&self, with: impl FnOnce() -> R) -> R {
        struct End<'a>(&'a Cell<bool>);
        impl Drop for End<'_> {
            fn drop(&mut self) {
                self.0.set(false);
            }
        }
        self.in_callback.set(true);
        let _end = End(&self.in_callback);
        with()
    }

    /// # Panics
    /// If the CPU belongs to another machine, whose epoch does not protect the nodes of `machine`. In debug
    /// builds, also if a callback of another operation is running on the CPU, because that operation may hold
    /// locks.
    #[inline]
    pub(crate) fn check(&self, machine: &M) {
        assert!(core::ptr::eq(self.machine, machine), "the CPU belongs to another machine");
        debug_assert!(!self.in_callback.get(), "an operation's callback calls another operation");
    }

    /// Allocates what an operation needs. The caller must hold no locks and no epoch guard.
    #[cold]
    pub(crate) fn refill(&self, needed: Needed) -> Result<(), OutOfMemory> {
        let PerCpuPool { tree, frames, blocks, backings } = &mut *self.pool.borrow_mut();
        match needed {
            Needed::Retry => Ok(()),
            Needed::SmallPages(_) => unreachable!("the transaction removes pages of 1 GiB"),
            Needed::Nodes(nodes) => tree.refill_nodes(self.machine, nodes, frames),
            Needed::Leaf { is_large } => {
                tree.refill_nodes(self.machine, Nodes::LEAF_AND_TABLE, frames)?;
                if is_large {
                    frames.refill_large_page(self.machine);
                }
                Ok(())
            }
            Needed::Extents { latches, room } => tree.refill_extents(latches, room),
            Needed::Palettes { count, room } => tree.refill_palettes(count, room),
            Needed::Page => frames.refill_page(self.machine),
            Needed::LargePage => {
                frames.refill_large_page(self.machine);
                Ok(())
            }
            Needed::Block => blocks.refill(),
            Needed::Backings(count) => backings.refill(count),
        }
    }

    /// Ensures that the pool has a zeroed page, if memory allows.
    #[inline]
    pub(crate) fn refill_zero_page(&self) {
        // The result is ignored: most faults need a zeroed page, but a fault that needs none must not fail
        // because memory is exhausted.
        let _ = self.pool.borrow_mut().frames.refill_page(self.machine);
    }

    /// Frees a frame.
    ///
    /// # Safety
    /// See [`Machine::free`].
    pub(crate) unsafe fn free(&self, frame: Frame) {
        // SAFETY: the caller meets the contract of `Machine::free`.
        unsafe { self.pool.borrow_mut().frames.free(self.machine, frame) };
    }

    /// Returns the frames of the CPU's pool to the machine, for example before the CPU goes offline, or when
    /// memory is scarce. Later operations of the CPU refill the pool.
    pub fn drain(&self) {
        self.defer();
        let PerCpuPool { tree, frames, .. } = &mut *self.pool.borrow_mut();
        for frame in tree.drain_tables() {
            // SAFETY: the pool owns the frame exclusively, and no CPU can access it.
            unsafe { self.machine.free(&[frame]) };
        }
        frames.free_all(self.machine);
    }

    /// Retires a node: it is freed after a grace period.
    ///
    /// # Safety
    /// The node must come from a box, and must be detached from its tree. It must not be retired twice.
    pub(crate) unsafe fn retire_node(&self, node: NonNull<Node>) {
        // SAFETY: the caller detached the node, which came from a box. A node of level 0 is a leaf and all
        // others are branches, so `free` matches the node's type.
        unsafe {
            let free = if node.as_ref().level() == 0 { Leaf::free } else { Branch::free };
            self.epoch.retire_entry(Node::entry(node), free);
        }
    }

    /// Retires the latches that operations have replaced: they are freed after a grace period.
    #[inline]
    pub(crate) fn defer(&self) {
        self.pool.borrow_mut().tree.defer(&self.epoch);
    }
}

impl<M: Machine> Drop for Cpu<'_, M> {
    fn drop(&mut self) {
        self.drain();
    }
}
