//! A space of an older design, from the choices on the command line.

use std::sync::Arc;

use knee_sync::invalidation::{Epoch, Invalidation as Form, LockFree, Locked, Slots};
use knee_vm::classic::{
    MapKind, Memory as Common, OneCounter, PerBacking, PerCpu, PerPage, RcuTree,
    Reverse as ReverseKind, Space, Strategies, Tree,
};
use knee_vm::hosted::Hosted;

use super::memory::{Cpu, Memory};
use super::user::LIMIT;
use crate::design::{Accounting, Design, Invalidation, Map, Reverse};
use crate::task::TaskError;

/// What is made for a choice, and what the space is of.
struct Wanted<'a> {
    design: Design,
    cpu: &'a Cpu,
    /// That the machine has.
    frames: usize,
}

type Made = Result<Box<dyn Memory>, TaskError>;

/// A space of this design where nothing is mapped.
pub(super) fn space(design: Design, cpu: &Cpu, frames: usize) -> Made {
    let wanted = Wanted { design, cpu, frames };
    match design.map() {
        Map::Tree => of_map::<Tree>(&wanted),
        Map::Rcu => of_map::<RcuTree>(&wanted),
    }
}

fn of_map<T: MapKind>(wanted: &Wanted<'_>) -> Made {
    match wanted.design.reverse() {
        Reverse::Page => of_reverse::<T, PerPage>(wanted),
        Reverse::Backing => of_reverse::<T, PerBacking>(wanted),
    }
}

fn of_reverse<T: MapKind, R: ReverseKind>(wanted: &Wanted<'_>) -> Made {
    match wanted.design.invalidation() {
        Invalidation::Mutex => of_form::<T, R, _>(wanted, Locked::new()),
        Invalidation::Epoch => of_form::<T, R, _>(wanted, Epoch::new()),
        Invalidation::LockFree => match LockFree::new() {
            Some(form) => of_form::<T, R, _>(wanted, form),
            None => Err(TaskError::found(
                "di=lockfree: this CPU does not compare and exchange 128 bits",
            )),
        },
        Invalidation::Slots => of_form::<T, R, _>(wanted, Slots::new()),
    }
}

fn of_form<T, R, I>(wanted: &Wanted<'_>, form: I) -> Made
where
    T: MapKind,
    R: ReverseKind,
    I: Form<Place: Send + Sync> + Send + Sync + 'static,
{
    match wanted.design.accounting() {
        Accounting::Atomic => of_all::<(T, R, I, OneCounter)>(wanted, form),
        Accounting::Quota => of_all::<(T, R, I, PerCpu)>(wanted, form),
    }
}

fn of_all<S: Strategies>(wanted: &Wanted<'_>, form: S::Invalidation) -> Made {
    let &Wanted { cpu, frames, .. } = wanted;
    let common = Common::<Hosted, S>::new(cpu.machine(), frames, LIMIT, form);
    let space = common.and_then(|common| Space::new(&Arc::new(common), cpu));
    Ok(Box::new(space.expect("a machine has frames for the root of a space")))
}
