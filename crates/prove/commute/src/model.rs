//! One trait for all interfaces, whatever the types of their states.

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

/// An interface that can be explored, whatever the type of its state.
pub trait Model: Sync {
    /// The name of the interface.
    fn name(&self) -> &str;
    /// A description of the interface, in one line.
    fn about(&self) -> &str;
    /// The names of the operations, and what each operation does.
    fn operations(&self) -> Vec<(&str, &str)>;
    /// Explores one call of each of these operations, given by index in [`operations`](Model::operations).
    fn explore(&self, operations: &[usize], limits: &Limits) -> Result<Exploration, ModelError>;
    /// Generates the tests of these operations, given by index in [`operations`](Model::operations). Passes
    /// the tests to `take` until `take` returns `Break`.
    fn generate(
        &self,
        operations: &[usize],
        limits: &Limits,
        wanted: &Wanted,
        take: &mut dyn FnMut(Test) -> ControlFlow<()>,
    ) -> Result<Generated, ModelError>;
}

/// All pairs of operations of an interface, including each operation with itself.
pub fn pairs(model: &dyn Model) -> Vec<[usize; 2]> {
    let pairs = sets(model.operations().len(), 2).into_iter();
    pairs.map(|pair| [pair[0], pair[1]]).collect()
}

/// All sets of `calls` calls in an interface that has `operations` operations. A set may call an operation
/// several times. A set lists the number of each call's operation, in ascending order.
pub fn sets(operations: usize, calls: usize) -> Vec<Vec<usize>> {
    (0..calls).fold(vec![Vec::new()], |sets, _| {
        let longer = |set: &Vec<usize>| {
            let set = set.clone();
            let least = set.last().copied().unwrap_or(0);
            (least..operations).map(move |nr| [&set[..], &[nr]].concat())
        };
        sets.iter().flat_map(longer).collect()
    })
}

/// Explores all pairs, on all CPUs. Calls `explored` after each pair. The results are in the order of
/// [`pairs`], without the pairs whose exploration failed.
pub fn explore_pairs(
    model: &dyn Model,
    limits: &Limits,
    mut explored: impl FnMut([usize; 2], Result<(), ModelError>),
) -> Vec<([usize; 2], Exploration)> {
    let pairs = pairs(model);
    let mut explorations = Vec::with_capacity(pairs.len());
    let explore = |nr: usize| model.explore(&pairs[nr], limits);
    in_order(pairs.len(), explore, |nr, exploration| {
        let pair = pairs[nr];
        explored(pair, exploration.map(|exploration| explorations.push((pair, exploration))));
        ControlFlow::Continue(())
    });
    explorations
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

/// The interfaces that come with knee. The first interface is the default of `knee commute`.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_may_call_an_operation_several_times() {
        assert_eq!(sets(2, 1), [[0], [1]]);
        assert_eq!(sets(2, 2), [[0, 0], [0, 1], [1, 1]]);
        assert_eq!(sets(2, 3), [[0, 0, 0], [0, 0, 1], [0, 1, 1], [1, 1, 1]]);
        // Of 18 operations, there are C(19, 2) sets of two calls and C(20, 3) sets of three.
        assert_eq!([2, 3].map(|calls| sets(18, calls).len()), [171, 1140]);
    }
}
