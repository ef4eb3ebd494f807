//! Interfaces of any state, behind one face.

use std::ops::ControlFlow;

use crate::exploration::{Exploration, Limits, ModelError};
use crate::explore::explore;
use crate::generate::{Generated, Test, Wanted, generate};
use crate::interface::Interface;
use crate::models::posix::alternatives;
use crate::models::{
    counter, directories, durability, map, posix, processes, queue, register, signals, sockets,
    stack,
};
use crate::parallel::in_order;
use crate::state::State;

/// An interface that can be explored, whatever its state is.
pub trait Model: Sync {
    /// What it is called.
    fn name(&self) -> &str;
    /// What it is.
    fn about(&self) -> &str;
    /// Names of its operations, and what each does.
    fn operations(&self) -> Vec<(&str, &str)>;
    /// Explores operations, by number, called at once.
    fn explore(&self, operations: &[usize], limits: &Limits) -> Result<Exploration, ModelError>;
    /// Makes tests of operations, by number, called at once, and gives each to `take` until it wants
    /// no more.
    fn generate(
        &self,
        operations: &[usize],
        limits: &Limits,
        wanted: &Wanted,
        take: &mut dyn FnMut(Test) -> ControlFlow<()>,
    ) -> Result<Generated, ModelError>;
}

/// All pairs of operations of an interface, each with itself too.
pub fn pairs(model: &dyn Model) -> Vec<[usize; 2]> {
    let n = model.operations().len();
    (0..n).flat_map(|i| (i..n).map(move |j| [i, j])).collect()
}

/// Explores all pairs, on all CPUs. In the order of the operations, whatever the number of threads. A
/// pair in which the model fails is left out, and given to `failed` with the reason.
pub fn explore_pairs(
    model: &dyn Model,
    limits: &Limits,
    mut failed: impl FnMut([usize; 2], ModelError),
) -> Vec<([usize; 2], Exploration)> {
    let pairs = pairs(model);
    let mut explored = Vec::with_capacity(pairs.len());
    let explore = |nr: usize| model.explore(&pairs[nr], limits);
    in_order(pairs.len(), explore, |nr, exploration| {
        match exploration {
            Ok(exploration) => explored.push((pairs[nr], exploration)),
            Err(error) => failed(pairs[nr], error),
        }
        ControlFlow::Continue(())
    });
    explored
}

impl<S: State> Model for Interface<S> {
    fn name(&self) -> &str {
        self.name
    }

    fn about(&self) -> &str {
        self.about
    }

    fn operations(&self) -> Vec<(&str, &str)> {
        self.operations.iter().map(|operation| (operation.name, operation.about)).collect()
    }

    fn explore(&self, operations: &[usize], limits: &Limits) -> Result<Exploration, ModelError> {
        let operations: Vec<_> = operations.iter().map(|&nr| &self.operations[nr]).collect();
        explore(self, &operations, limits)
    }

    fn generate(
        &self,
        operations: &[usize],
        limits: &Limits,
        wanted: &Wanted,
        take: &mut dyn FnMut(Test) -> ControlFlow<()>,
    ) -> Result<Generated, ModelError> {
        let operations: Vec<_> = operations.iter().map(|&nr| &self.operations[nr]).collect();
        generate(self, &operations, limits, wanted, take)
    }
}

/// The interfaces that come with knee; the first is what one asks for without a name.
pub fn models() -> Vec<Box<dyn Model>> {
    vec![
        Box::new(posix::posix()),
        Box::new(counter::counter()),
        Box::new(register::register()),
        Box::new(stack::stack()),
        Box::new(map::map()),
        Box::new(queue::queue()),
        Box::new(processes::processes()),
        Box::new(directories::directories()),
        Box::new(sockets::sockets()),
        Box::new(signals::signals()),
        Box::new(durability::durability()),
        Box::new(alternatives::posix_plus()),
    ]
}
