//! What an author of a model writes: a state, and operations on it.

use crate::call::Call;
use crate::example::Example;
use crate::execution::{Execution, Stop};
use crate::outcome::Outcome;

/// The steps to an initial state, which whoever runs the tests understands.
pub type Setup<S> = fn(&S, &mut Execution, &mut Example<'_>) -> Vec<serde_json::Value>;

/// An interface: an unknown initial state, and operations.
pub struct Interface<S> {
    /// What it is called.
    pub name: &'static str,
    /// What it is, and what there is to learn from it.
    pub about: &'static str,
    /// Takes for granted what holds in every state that can be reached.
    pub invariant: fn(&S, &mut Execution) -> Result<(), Stop>,
    /// How tests come to an initial state; without it, one step sets each part of the state that is
    /// known.
    pub setup: Option<Setup<S>>,
    /// In the order in which they are shown.
    pub operations: Vec<Operation<S>>,
}

impl<S> Interface<S> {
    /// The operation of that name.
    pub fn operation(&self, name: &str) -> Option<&Operation<S>> {
        self.operations.iter().find(|operation| operation.name == name)
    }
}

/// Without operations; any state can be reached, and is set part by part.
impl<S> Default for Interface<S> {
    fn default() -> Self {
        Self { name: "", about: "", invariant: |_, _| Ok(()), setup: None, operations: Vec::new() }
    }
}

/// An operation of an interface.
pub struct Operation<S> {
    /// What it is called.
    pub name: &'static str,
    /// Its arguments, and what it does that matters here.
    pub about: &'static str,
    /// Does it: changes the state, says what the caller sees.
    pub apply: fn(&mut S, &mut Call<'_>) -> Result<Outcome, Stop>,
}
