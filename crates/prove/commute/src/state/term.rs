//! Typed names.

use std::marker::PhantomData;

use super::{Part, Sort, State};
use crate::execution::{Execution, Stop};
use crate::facts::Name;

/// A name of the sort `S`. The only possible fact about two names is whether they are equal.
#[derive(Debug)]
pub struct Term<S>(pub(crate) Name, PhantomData<S>);

impl<S> Clone for Term<S> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<S> Copy for Term<S> {}

impl<S> Term<S> {
    pub(crate) fn new(name: Name) -> Self {
        Self(name, PhantomData)
    }

    /// The constant called `label`, such as the content of new memory. Tests print it by its label.
    pub fn constant(execution: &mut Execution, label: &str) -> Self
    where
        S: Sort,
    {
        Self::new(execution.terms.constant(S::NAME, label))
    }

    /// Assumes that the name differs from `other`: see [`Execution::assume_different`].
    pub fn assume_different(self, other: Self, execution: &mut Execution) -> Result<(), Stop> {
        execution.assume_different(self.0, other.0)
    }
}

impl<S: Sort> State for Term<S> {
    fn unknown(execution: &mut Execution, label: &str) -> Self {
        Self::new(execution.terms.name(S::NAME, label))
    }

    fn same(&self, other: &Self, execution: &mut Execution) -> Result<bool, Stop> {
        execution.same_name(self.0, other.0)
    }

    fn show(&self, execution: &Execution) -> String {
        execution.facts().label(self.0).to_owned()
    }

    fn part(&self, _: &mut Execution) -> Part {
        Part::Name(self.0)
    }
}
