//! A space of an older design, from the parameters of the testcase.

use std::sync::Arc;

use knee_baselines::classic::{
    MapKind, Memory as Common, OneCounter, PerBacking, PerCpu, PerPage, RcuTree,
    Reverse as ReverseKind, Space, Strategies, Tree,
};
use knee_baselines::invalidation::{Epoch, Invalidation as Form, LockFree, Locked, Slots};
use knee_run::TaskError;
use knee_run::parameter::Settings;
use knee_vm::hosted::Hosted;

use super::memory::{Cpu, LIMIT, Memory};

/// What is made for a choice, and what the space is of.
struct Wanted<'a> {
    settings: &'a Settings,
    cpu: &'a Cpu,
    /// That the machine has.
    frames: usize,
}

type Made = Result<Box<dyn Memory>, TaskError>;

/// A space of this design where nothing is mapped.
pub(super) fn space(settings: &Settings, cpu: &Cpu, frames: usize) -> Made {
    let wanted = Wanted { settings, cpu, frames };
    match settings.value("map") {
        Some("rcu") => of_map::<RcuTree>(&wanted),
        _ => of_map::<Tree>(&wanted),
    }
}

fn of_map<T: MapKind>(wanted: &Wanted<'_>) -> Made {
    match wanted.settings.value("rmap") {
        Some("backing") => of_reverse::<T, PerBacking>(wanted),
        _ => of_reverse::<T, PerPage>(wanted),
    }
}

fn of_reverse<T: MapKind, R: ReverseKind>(wanted: &Wanted<'_>) -> Made {
    match wanted.settings.value("di") {
        Some("epoch") => of_form::<T, R, _>(wanted, Epoch::new()),
        Some("lockfree") => match LockFree::new() {
            Some(form) => of_form::<T, R, _>(wanted, form),
            None => Err(TaskError::found("di=lockfree: this CPU has no 128-bit compare-exchange")),
        },
        Some("slots") => of_form::<T, R, _>(wanted, Slots),
        _ => of_form::<T, R, _>(wanted, Locked::new()),
    }
}

fn of_form<T, R, I>(wanted: &Wanted<'_>, form: I) -> Made
where
    T: MapKind,
    R: ReverseKind,
    I: Form<Place: Send + Sync> + Send + Sync + 'static,
{
    match wanted.settings.value("accounting") {
        Some("quota") => of_all::<(T, R, I, PerCpu)>(wanted, form),
        _ => of_all::<(T, R, I, OneCounter)>(wanted, form),
    }
}

fn of_all<S: Strategies>(wanted: &Wanted<'_>, form: S::Invalidation) -> Made {
    let &Wanted { cpu, frames, .. } = wanted;
    let common = Common::<Hosted, S>::new(cpu.machine(), frames, LIMIT, form);
    let space = common.and_then(|common| Space::new(&Arc::new(common), cpu));
    Ok(Box::new(space.expect("a machine has frames for the root of a space")))
}
