//! The designs of address spaces, for tests that are written once and run on each design.

use std::marker::PhantomData;
use std::sync::Arc;

use knee_baselines::AddressSpace;
use knee_baselines::classic::{
    self, Memory, OneCounter, PerBacking, PerCpu, PerPage, RcuTree, Strategies, Tree,
};
use knee_baselines::invalidation::{Epoch, Invalidation, LockFree, Locked, Slots};
use knee_vm::hosted::{Architecture, Hosted, Processor};
use knee_vm::{Audit, Quota, Space, X86_64};

/// The machine on which the spaces of the design `D` run.
pub(crate) type MachineOf<D> = Hosted<<D as Design>::Architecture>;

/// A CPU of [`MachineOf<D>`](MachineOf).
pub(crate) type ProcessorOf<'m, D> = Processor<'m, <D as Design>::Architecture>;

/// A design of address spaces.
pub(crate) trait Design: Sized + 'static {
    /// Whether `map_anywhere` uses the first gap that is large enough.
    const IS_FIRST_FIT: bool;
    /// Whether `unmap` returns only when no CPU can access the pages any more.
    const FLUSHES_AT_ONCE: bool = true;
    /// The architecture of the machine.
    type Architecture: Architecture;
    /// The state that the design's spaces share.
    type Shared<'m>: Sync;
    type Space<'m>: AddressSpace<'m, MachineOf<Self>>;

    /// Returns the number of rounds of a test: fewer for the older designs.
    fn rounds(_default: u64, older: u64) -> u64 {
        older
    }

    /// Creates the shared state. All spaces together may map at most `limit` pages.
    fn shared(machine: &MachineOf<Self>, limit: u64) -> Self::Shared<'_>;
    fn space<'m>(shared: &Self::Shared<'m>, cpu: &ProcessorOf<'m, Self>) -> Self::Space<'m>;
    /// Returns the number of charged pages.
    fn used(shared: &Self::Shared<'_>) -> u64;
    fn audit<'m>(space: &Self::Space<'m>, cpu: &ProcessorOf<'m, Self>) -> Audit;
    /// Compares the reverse map, if there is one, with all tables. There must be no concurrent changes.
    fn audit_all<'m>(
        shared: &Self::Shared<'m>,
        spaces: &[&Self::Space<'m>],
        cpu: &ProcessorOf<'m, Self>,
    );
}

/// The default design.
pub(crate) struct Default<A = X86_64>(PhantomData<A>);

impl<A: Architecture> Design for Default<A> {
    const IS_FIRST_FIT: bool = false;
    type Architecture = A;
    type Shared<'m> = Arc<Quota>;
    type Space<'m> = Space<'m, Hosted<A>>;

    fn rounds(default: u64, _older: u64) -> u64 {
        default
    }

    fn shared(machine: &Hosted<A>, limit: u64) -> Arc<Quota> {
        Arc::new(Quota::new(machine, limit).unwrap())
    }

    fn space<'m>(shared: &Arc<Quota>, cpu: &Processor<'m, A>) -> Space<'m, Hosted<A>> {
        Space::with_quota(cpu, Arc::clone(shared)).unwrap()
    }

    fn used(shared: &Arc<Quota>) -> u64 {
        shared.used()
    }

    fn audit<'m>(space: &Space<'m, Hosted<A>>, cpu: &Processor<'m, A>) -> Audit {
        space.audit(cpu)
    }

    fn audit_all<'m>(_: &Arc<Quota>, _: &[&Space<'m, Hosted<A>>], _: &Processor<'m, A>) {}
}

/// The default design with lazy unmapping.
pub(crate) struct Lazy<A = X86_64>(PhantomData<A>);

impl<A: Architecture> Design for Lazy<A> {
    const IS_FIRST_FIT: bool = false;
    const FLUSHES_AT_ONCE: bool = false;
    type Architecture = A;
    type Shared<'m> = Arc<Quota>;
    type Space<'m> = Space<'m, Hosted<A>>;

    fn shared(machine: &Hosted<A>, limit: u64) -> Arc<Quota> {
        Default::<A>::shared(machine, limit)
    }

    fn space<'m>(shared: &Arc<Quota>, cpu: &Processor<'m, A>) -> Space<'m, Hosted<A>> {
        let space = Default::<A>::space(shared, cpu);
        space.set_lazy(true);
        space
    }

    fn used(shared: &Arc<Quota>) -> u64 {
        shared.used()
    }

    fn audit<'m>(space: &Space<'m, Hosted<A>>, cpu: &Processor<'m, A>) -> Audit {
        space.audit(cpu)
    }

    fn audit_all<'m>(_: &Arc<Quota>, _: &[&Space<'m, Hosted<A>>], _: &Processor<'m, A>) {}
}

/// An older design.
pub(crate) struct Classic<S, A = X86_64>(PhantomData<(S, A)>);

/// Creates an instance of the delayed invalidation that the strategies `S` use.
pub(crate) fn form<S: Strategies>() -> S::Invalidation {
    S::Invalidation::supported().expect("the CPU has a 128-bit compare-exchange")
}

/// No test's machine has more frames than this.
pub(crate) const FRAMES: usize = 1 << 13;

impl<S: Strategies, A: Architecture> Design for Classic<S, A> {
    const IS_FIRST_FIT: bool = true;
    type Architecture = A;
    type Shared<'m> = Arc<Memory<'m, Hosted<A>, S>>;
    type Space<'m> = classic::Space<'m, Hosted<A>, S>;

    fn shared(machine: &Hosted<A>, limit: u64) -> Arc<Memory<'_, Hosted<A>, S>> {
        Arc::new(Memory::new(machine, FRAMES, limit, form::<S>()).unwrap())
    }

    fn space<'m>(
        shared: &Arc<Memory<'m, Hosted<A>, S>>,
        cpu: &Processor<'m, A>,
    ) -> classic::Space<'m, Hosted<A>, S> {
        classic::Space::new(shared, cpu).unwrap()
    }

    fn used(shared: &Arc<Memory<'_, Hosted<A>, S>>) -> u64 {
        shared.used()
    }

    fn audit<'m>(space: &classic::Space<'m, Hosted<A>, S>, cpu: &Processor<'m, A>) -> Audit {
        space.audit(cpu)
    }

    fn audit_all<'m>(
        shared: &Arc<Memory<'m, Hosted<A>, S>>,
        spaces: &[&classic::Space<'m, Hosted<A>, S>],
        cpu: &Processor<'m, A>,
    ) {
        shared.audit(cpu, spaces);
    }
}

// Each strategy occurs in at least one design, and each kind of map is combined with each reverse map.
pub(crate) type FreeBsd2016<A = X86_64> = Classic<(Tree, PerPage, Locked, OneCounter), A>;
pub(crate) type FreeBsd2019<A = X86_64> = Classic<(Tree, PerPage, LockFree, OneCounter), A>;
pub(crate) type DragonFly<A = X86_64> = Classic<(Tree, PerBacking, Epoch, OneCounter), A>;
pub(crate) type NewLinux<A = X86_64> = Classic<(RcuTree, PerBacking, Slots, PerCpu), A>;
pub(crate) type Mixed<A = X86_64> = Classic<(RcuTree, PerPage, Slots, PerCpu), A>;

/// Runs a test for each design on each architecture. With `Lazy` as the second argument, also runs the test
/// for the design `Lazy`.
macro_rules! for_each_design {
    ($test:ident $(, $lazy:ident)?) => {
        mod $test {
            use crate::designs;

            designs::on_each_architecture!($test:
                $(lazy = $lazy,)?
                default = Default,
                freebsd_2016 = FreeBsd2016,
                freebsd_2019 = FreeBsd2019,
                dragonfly = DragonFly,
                new_linux = NewLinux,
                mixed = Mixed,
            );
        }
    };
}

/// Runs a test for these designs on each architecture, in a module for each design.
macro_rules! on_each_architecture {
    ($test:ident: $($name:ident = $design:ident,)+) => {
        $(mod $name {
            use crate::designs::$design;

            #[test]
            fn x86_64() {
                super::super::$test::<$design<knee_vm::X86_64>>();
            }

            #[test]
            fn aarch64() {
                super::super::$test::<$design<knee_vm::AArch64>>();
            }

            #[test]
            fn sv48() {
                super::super::$test::<$design<knee_vm::Sv48>>();
            }
        })+
    };
}

pub(crate) use {for_each_design, on_each_architecture};
