//! Names of a sort.

use std::marker::PhantomData;

use super::{Part, Sort, State};
use crate::facts::Name;
use crate::world::{Stop, World};

/// A name of a sort: equal to another or not, and nothing else.
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

    /// The one called `label` wherever it is met: see [`World::constant`].
    pub fn constant(world: &mut World, label: &str) -> Self
    where
        S: Sort,
    {
        Self(world.constant(S::NAME, label), PhantomData)
    }

    /// Takes for granted that it is not `other`: see [`World::assume_different`].
    pub fn assume_different(self, other: Self, world: &mut World) -> Result<(), Stop> {
        world.assume_different(self.0, other.0)
    }
}

impl<S: Sort> State for Term<S> {
    fn unknown(world: &mut World, label: &str) -> Self {
        Self::new(world.name(S::NAME, label))
    }

    fn same(&self, other: &Self, world: &mut World) -> Result<bool, Stop> {
        world.same_name(self.0, other.0)
    }

    fn show(&self, world: &World) -> String {
        world.facts().label(self.0).to_owned()
    }

    fn part(&self, _: &mut World) -> Part {
        Part::Name(self.0)
    }
}
