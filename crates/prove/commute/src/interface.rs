//! Interfaces and operations: what the author of a model defines.

use crate::call::Call;
use crate::example::Example;
use crate::execution::{Execution, Stop};
use crate::outcome::Outcome;

/// Returns the steps that set up an initial state. The program that runs the tests must support
/// these steps.
pub type Setup<S> = fn(&S, &mut Execution, &mut Example<'_>) -> Vec<serde_json::Value>;

/// A model of an interface: operations on a state of the type `S`.
pub struct Interface<S> {
    /// The name of the interface.
    pub name: &'static str,
    /// A description of the interface in one line, which `knee commute list` prints.
    pub about: &'static str,
    /// Assumes the facts that hold in every reachable state.
    pub invariant: fn(&S, &mut Execution) -> Result<(), Stop>,
    /// Returns the steps that set up the initial state of a test. `None` means that the set-up has
    /// one step for each known part of the state.
    pub setup: Option<Setup<S>>,
    /// The operations, in the order in which they are printed.
    pub operations: Vec<Operation<S>>,
}

impl<S> Interface<S> {
    /// The operation called `name`.
    pub fn operation(&self, name: &str) -> Option<&Operation<S>> {
        self.operations.iter().find(|operation| operation.name == name)
    }
}

/// An interface without operations, in which every state is reachable. Tests set the state part by
/// part.
impl<S> Default for Interface<S> {
    fn default() -> Self {
        Self { name: "", about: "", invariant: |_, _| Ok(()), setup: None, operations: Vec::new() }
    }
}

/// An operation of an interface.
pub struct Operation<S> {
    /// The name of the operation.
    pub name: &'static str,
    /// The arguments of the operation, and what it does.
    pub about: &'static str,
    /// Changes the state, and returns what the caller sees.
    pub apply: fn(&mut S, &mut Call<'_>) -> Result<Outcome, Stop>,
}
