//! The strategies that make up an older design.

use super::accounting::Accounting;
use super::map::MapKind;
use super::reverse::Reverse;
use crate::invalidation::Invalidation;

/// The strategies of a [`Space`](super::Space). A tuple of four strategies implements this trait, for example
/// `(Tree, PerPage, Slots, OneCounter)`.
pub trait Strategies: 'static {
    /// The map of entries: [`Tree`](super::Tree) or [`RcuTree`](super::RcuTree).
    type Map: MapKind;
    /// The reverse map: [`PerPage`](super::PerPage) or [`PerBacking`](super::PerBacking).
    type Reverse: Reverse;
    /// The implementation of delayed invalidation: one of those in [`crate::invalidation`].
    type Invalidation: Invalidation<Place: Send + Sync> + Send + Sync;
    /// The accounting: [`OneCounter`](super::OneCounter) or [`PerCpu`](super::PerCpu). If this were a value
    /// instead of a type, half as much code would be compiled, but mapping and unmapping a page would be a
    /// third slower.
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

/// The backing of map entries.
pub(super) type BackingOf<S> = <<S as Strategies>::Reverse as Reverse>::Backing;
