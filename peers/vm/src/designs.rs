//! Designs of address spaces: the default one and older ones, by name.

use std::sync::Arc;

use knee_baselines::AddressSpace;
use knee_baselines::classic::{
    self, Memory, OneCounter, PerBacking, PerCpu, PerPage, RcuTree, Strategies, Tree,
};
use knee_baselines::invalidation::{Epoch, Invalidation, LockFree, Locked, Slots};
use knee_vm::hosted::{Hosted, Processor};
use knee_vm::{Quota, Space};

/// Pages that all spaces of a machine may have mapped: more than any row maps.
const LIMIT: u64 = 1 << 30;

/// A design on a machine. It lasts as long as the program.
pub(crate) trait Design: Sync + 'static {
    type Space: AddressSpace<'static, Hosted>;

    /// What its spaces have together, on a machine with so many frames.
    fn on(machine: &'static Hosted, frames: usize) -> Self;

    fn space(&self, cpu: &Processor<'static>) -> Self::Space;
}

/// knee-vm's own, with a quota.
pub(crate) struct Knee(Arc<Quota>);

impl Design for Knee {
    type Space = Space<'static, Hosted>;

    fn on(machine: &'static Hosted, _: usize) -> Knee {
        Knee(Arc::new(Quota::new(machine, LIMIT).expect("there is memory")))
    }

    fn space(&self, cpu: &Processor<'static>) -> Space<'static, Hosted> {
        Space::with_quota(cpu, Arc::clone(&self.0)).expect("there is memory")
    }
}

/// An older one.
pub(crate) struct Classic<S: Strategies>(Arc<Memory<'static, Hosted, S>>);

impl<S: Strategies> Design for Classic<S> {
    type Space = classic::Space<'static, Hosted, S>;

    fn on(machine: &'static Hosted, frames: usize) -> Classic<S> {
        let form = S::Invalidation::supported().expect("the CPU compares and exchanges 128 bits");
        let memory = Memory::new(machine, frames, LIMIT, form);
        Classic(Arc::new(memory.expect("there is memory")))
    }

    fn space(&self, cpu: &Processor<'static>) -> classic::Space<'static, Hosted, S> {
        classic::Space::new(&self.0, cpu).expect("there is memory")
    }
}

/// Does something for each design.
pub(crate) trait ForEach {
    type Result;

    fn of<D: Design>(&mut self, name: &'static str) -> Self::Result;
}

/// Calls for each design, those with one strategy changed next to each other.
pub(crate) fn for_each<F: ForEach>(mut with: F) -> Vec<F::Result> {
    vec![
        with.of::<Knee>("**knee-vm**"),
        with.of::<Classic<(Tree, PerPage, Locked, OneCounter)>>("tree, pv, mutex, one counter"),
        with.of::<Classic<(Tree, PerPage, Epoch, OneCounter)>>("tree, pv, epoch, one counter"),
        with.of::<Classic<(Tree, PerPage, LockFree, OneCounter)>>(
            "tree, pv, lock-free, one counter",
        ),
        with.of::<Classic<(Tree, PerPage, Slots, OneCounter)>>("tree, pv, slots, one counter"),
        with.of::<Classic<(Tree, PerPage, Slots, PerCpu)>>("tree, pv, slots, quota"),
        with.of::<Classic<(Tree, PerBacking, Slots, PerCpu)>>("tree, backing, slots, quota"),
        with.of::<Classic<(RcuTree, PerBacking, Slots, PerCpu)>>("RCU tree, backing, slots, quota"),
    ]
}
