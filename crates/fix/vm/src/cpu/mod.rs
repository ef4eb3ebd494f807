//! What a CPU has for itself: its part in the epoch, and what operations will need.

use core::cell::RefCell;
use core::marker::PhantomData;
use core::ptr::NonNull;

use knee_sync::epoch::{Guard, Handle};

use crate::backing::BackingPool;
use crate::backing::index::BlockPool;
use crate::error::OutOfMemory;
use crate::machine::Machine;
use crate::machine::frame_pool::FramePool;
use crate::needed::Needed;
use crate::page::Frame;
use crate::tree::node::{Branch, Leaf, Node};
use crate::tree::pool::TreePool;

/// A CPU of a machine. It stays on its thread, as kernels have one in the data of each CPU.
///
/// So it is not `Send`:
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
    /// Neither `Send` nor `Sync`.
    stays_on_its_thread: PhantomData<*const ()>,
}

/// What a CPU has allocated before it was known whether operations will need it.
#[derive(Debug, Default)]
pub(crate) struct PerCpuPool {
    pub(crate) tree: TreePool,
    pub(crate) frames: FramePool,
    pub(crate) blocks: BlockPool,
    pub(crate) backings: BackingPool,
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
        let pool = RefCell::new(PerCpuPool::default());
        Cpu { machine, number, epoch, pool, stays_on_its_thread: PhantomData }
    }

    /// Its number.
    pub fn number(&self) -> usize {
        self.number
    }

    /// The machine.
    pub fn machine(&self) -> &'m M {
        self.machine
    }

    /// The fence and the clock of the machine.
    pub(crate) fn platform(&self) -> &'m M::Platform {
        self.machine.epoch().platform()
    }

    /// Begins a section of the machine's [epoch](Machine::epoch), in which the CPU may read what it shares with
    /// others: what is retired meanwhile is not freed before the guard is dropped. The CPU does not call
    /// [`synchronize`](knee_sync::epoch::Domain::synchronize) within it.
    #[inline]
    pub fn pin(&self) -> Guard<'_, M::Platform> {
        self.epoch.pin()
    }

    /// Calls `with` with what there is, which it uses within the call.
    #[inline]
    pub(crate) fn with_pool<R>(&self, with: impl FnOnce(&mut PerCpuPool) -> R) -> R {
        with(&mut self.pool.borrow_mut())
    }

    /// Allocates what was missing. Without locks, and outside of the epoch.
    #[cold]
    pub(crate) fn refill(&self, needed: Needed) -> Result<(), OutOfMemory> {
        let PerCpuPool { tree, frames, blocks, backings } = &mut *self.pool.borrow_mut();
        match needed {
            Needed::Retry => Ok(()),
            Needed::Nodes(nodes) => tree.refill_nodes(self.machine, nodes, frames),
            Needed::Extents { latches, room } => tree.refill_extents(latches, room),
            Needed::Palettes { count, room } => tree.refill_palettes(count, room),
            Needed::Page => frames.refill_page(self.machine),
            Needed::Block => blocks.refill(),
            Needed::Backings(count) => backings.refill(count),
        }
    }

    /// Allocates a page of zeros if there is none, and there is memory for it.
    #[inline]
    pub(crate) fn refill_zero_page(&self) {
        // Most faults need one, and those that do not should not fail for it.
        let _ = self.pool.borrow_mut().frames.refill_page(self.machine);
    }

    /// Gives a frame back that no CPU can go to any more.
    ///
    /// # Safety
    /// As of [`Machine::free`].
    pub(crate) unsafe fn free(&self, frame: Frame) {
        // SAFETY: the caller promises it.
        unsafe { self.pool.borrow_mut().frames.free(self.machine, frame) };
    }

    /// Has a node freed when nobody looks at it any more.
    ///
    /// # Safety
    /// It came from a box, and was taken out of its tree.
    pub(crate) unsafe fn retire_node(&self, node: NonNull<Node>) {
        // SAFETY: the caller promises it. A node of level 0 is a leaf.
        unsafe {
            let free = if node.as_ref().level() == 0 { Leaf::free } else { Branch::free };
            self.epoch.retire_entry(Node::entry(node), free);
        }
    }

    /// Has what operations replaced freed when nobody can read it any more.
    #[inline]
    pub(crate) fn defer(&self) {
        self.pool.borrow_mut().tree.defer(&self.epoch);
    }
}

impl<M: Machine> Drop for Cpu<'_, M> {
    fn drop(&mut self) {
        self.defer();
        let PerCpuPool { tree, frames, .. } = self.pool.get_mut();
        for frame in tree.drain_tables() {
            // SAFETY: the frames are ours alone.
            unsafe { self.machine.free(&[frame]) };
        }
        frames.free_all(self.machine);
    }
}
