//! Designs by name, for tests that are written once.

use std::marker::PhantomData;
use std::sync::Arc;

use knee_baselines::AddressSpace;
use knee_baselines::classic::{
    self, Memory, OneCounter, PerBacking, PerCpu, PerPage, RcuTree, Strategies, Tree,
};
use knee_baselines::invalidation::{Epoch, Invalidation, LockFree, Locked, Slots};
use knee_vm::hosted::{Architecture, Hosted, Processor};
use knee_vm::{Audit, Quota, Space, X86_64};

/// The machine of a design.
pub(crate) type MachineOf<D> = Hosted<<D as Design>::Architecture>;

/// A CPU of it.
pub(crate) type ProcessorOf<'m, D> = Processor<'m, <D as Design>::Architecture>;

/// A design of spaces.
pub(crate) trait Design: Sized + 'static {
    /// Whether what is mapped anywhere is in the first gap that has room.
    const IS_FIRST_FIT: bool;
    /// Whether no CPU goes to what is unmapped.
    const FORGETS_AT_ONCE: bool = true;
    /// Of the machine that it runs on.
    type Architecture: Architecture;
    /// What its spaces have together.
    type Shared<'m>: Sync;
    type Space<'m>: AddressSpace<'m, MachineOf<Self>>;

    /// So many rounds of a test are for it, of which the older designs have fewer.
    fn rounds(_default: u64, older: u64) -> u64 {
        older
    }

    /// `limit` is the most that all may have mapped.
    fn shared(machine: &MachineOf<Self>, limit: u64) -> Self::Shared<'_>;
    fn space<'m>(shared: &Self::Shared<'m>, cpu: &ProcessorOf<'m, Self>) -> Self::Space<'m>;
    /// Pages that are charged.
    fn used(shared: &Self::Shared<'_>) -> u64;
    fn audit<'m>(space: &Self::Space<'m>, cpu: &ProcessorOf<'m, Self>) -> Audit;
    /// Compares whatever there is of a reverse map with all tables, while all is quiet.
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

/// The default design, lazy.
pub(crate) struct Lazy<A = X86_64>(PhantomData<A>);

impl<A: Architecture> Design for Lazy<A> {
    const IS_FIRST_FIT: bool = false;
    const FORGETS_AT_ONCE: bool = false;
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

/// An older one.
pub(crate) struct Classic<S>(PhantomData<S>);

/// The form of delayed invalidation that such spaces have.
pub(crate) fn form<S: Strategies>() -> S::Invalidation {
    S::Invalidation::supported().expect("the CPU compares and exchanges 128 bits")
}

/// More frames than any test's machine has.
pub(crate) const FRAMES: usize = 1 << 13;

impl<S: Strategies> Design for Classic<S> {
    const IS_FIRST_FIT: bool = true;
    type Architecture = X86_64;
    type Shared<'m> = Arc<Memory<'m, Hosted, S>>;
    type Space<'m> = classic::Space<'m, Hosted, S>;

    fn shared(machine: &Hosted, limit: u64) -> Arc<Memory<'_, Hosted, S>> {
        Arc::new(Memory::new(machine, FRAMES, limit, form::<S>()).unwrap())
    }

    fn space<'m>(
        shared: &Arc<Memory<'m, Hosted, S>>,
        cpu: &Processor<'m>,
    ) -> classic::Space<'m, Hosted, S> {
        classic::Space::new(shared, cpu).unwrap()
    }

    fn used(shared: &Arc<Memory<'_, Hosted, S>>) -> u64 {
        shared.used()
    }

    fn audit<'m>(space: &classic::Space<'m, Hosted, S>, cpu: &Processor<'m>) -> Audit {
        space.audit(cpu)
    }

    fn audit_all<'m>(
        shared: &Arc<Memory<'m, Hosted, S>>,
        spaces: &[&classic::Space<'m, Hosted, S>],
        cpu: &Processor<'m>,
    ) {
        shared.audit(cpu, spaces);
    }
}

// Each strategy is in one of these, and maps and reverse maps come in all combinations.
pub(crate) type FreeBsd2016 = Classic<(Tree, PerPage, Locked, OneCounter)>;
pub(crate) type FreeBsd2019 = Classic<(Tree, PerPage, LockFree, OneCounter)>;
pub(crate) type DragonFly = Classic<(Tree, PerBacking, Epoch, OneCounter)>;
pub(crate) type NewLinux = Classic<(RcuTree, PerBacking, Slots, PerCpu)>;
pub(crate) type Mixed = Classic<(RcuTree, PerPage, Slots, PerCpu)>;

/// Runs a test for each design, and for the lazy one as well if it is named; these two on each architecture.
macro_rules! for_each_design {
    ($test:ident $(, $lazy:ident)?) => {
        mod $test {
            $(
                #[test]
                fn lazy() {
                    super::$test::<crate::designs::$lazy>();
                }

                #[test]
                fn lazy_on_aarch64() {
                    super::$test::<crate::designs::$lazy<knee_vm::AArch64>>();
                }

                #[test]
                fn lazy_on_sv48() {
                    super::$test::<crate::designs::$lazy<knee_vm::Sv48>>();
                }
            )?

            #[test]
            fn default() {
                super::$test::<crate::designs::Default>();
            }

            #[test]
            fn default_on_aarch64() {
                super::$test::<crate::designs::Default<knee_vm::AArch64>>();
            }

            #[test]
            fn default_on_sv48() {
                super::$test::<crate::designs::Default<knee_vm::Sv48>>();
            }

            #[test]
            fn freebsd_2016() {
                super::$test::<crate::designs::FreeBsd2016>();
            }

            #[test]
            fn freebsd_2019() {
                super::$test::<crate::designs::FreeBsd2019>();
            }

            #[test]
            fn dragonfly() {
                super::$test::<crate::designs::DragonFly>();
            }

            #[test]
            fn new_linux() {
                super::$test::<crate::designs::NewLinux>();
            }

            #[test]
            fn mixed() {
                super::$test::<crate::designs::Mixed>();
            }
        }
    };
}

pub(crate) use for_each_design;
