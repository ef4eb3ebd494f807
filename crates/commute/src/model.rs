//! Interfaces of any state, behind one face.

use crate::explore::{Exploration, Limits, ModelError, explore, explore_pairs};
use crate::interface::Interface;
use crate::models::posix::alternatives;
use crate::models::{
    counter, directories, durability, map, posix, processes, queue, register, signals, sockets,
    stack,
};
use crate::state::State;

/// An interface that can be explored, whatever its state is.
pub trait Model: Sync {
    /// What it is called.
    fn name(&self) -> &'static str;
    /// What it is.
    fn about(&self) -> &'static str;
    /// Names of its operations, and what each does.
    fn operations(&self) -> Vec<(&'static str, &'static str)>;
    /// Explores operations, by number, called at once.
    fn explore(&self, operations: &[usize], limits: &Limits) -> Result<Exploration, ModelError>;
    /// Explores all pairs, on all CPUs.
    fn explore_pairs(&self, limits: &Limits) -> Pairs;
}

/// Pairs of operations, by number, and what was found.
pub type Pairs = Vec<([usize; 2], Result<Exploration, ModelError>)>;

impl<S: State> Model for Interface<S> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn about(&self) -> &'static str {
        self.about
    }

    fn operations(&self) -> Vec<(&'static str, &'static str)> {
        self.operations.iter().map(|operation| (operation.name, operation.about)).collect()
    }

    fn explore(&self, operations: &[usize], limits: &Limits) -> Result<Exploration, ModelError> {
        let operations: Vec<_> = operations.iter().map(|&nr| &self.operations[nr]).collect();
        explore(self, &operations, limits)
    }

    fn explore_pairs(&self, limits: &Limits) -> Pairs {
        explore_pairs(self, limits)
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
