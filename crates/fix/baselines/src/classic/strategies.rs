//! Which of the older designs.

use super::accounting::Accounting;
use super::map::MapKind;
use super::reverse::Reverse;
use crate::invalidation::Invalidation;

/// What a [`Space`](super::Space) does in one way or another. A tuple of four says it:
/// `(Tree, PerPage, Slots, OneCounter)`.
pub trait Strategies: 'static {
    /// What is mapped where: [`Tree`](super::Tree) or [`RcuTree`](super::RcuTree).
    type Map: MapKind;
    /// From a frame to where it is mapped: [`PerPage`](super::PerPage) or [`PerBacking`](super::PerBacking).
    type Reverse: Reverse;
    /// Delayed invalidation: a form of [`crate::invalidation`].
    type Invalidation: Invalidation<Place: Send + Sync> + Send + Sync;
    /// Counting: [`OneCounter`](super::OneCounter) or [`PerCpu`](super::PerCpu).
    type Accounting: Accounting;
}

impl<T, R, I, A> Strategies for (T, R, I, A)
where
    T: MapKind,
    R: Reverse,
    I: Invalidation + Send + Sync + 'static,
    A: Accounting,
{
    type Map = T;
    type Reverse = R;
    type Invalidation = I;
    type Accounting = A;
}

/// The map of a space.
pub(super) type MapOf<S> = <<S as Strategies>::Map as MapKind>::Map<<S as Strategies>::Reverse>;

/// What is behind the entries of a map.
pub(super) type BackingOf<S> = <<S as Strategies>::Reverse as Reverse>::Backing;
