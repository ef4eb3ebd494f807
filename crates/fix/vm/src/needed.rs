//! What an operation must do before it can continue, usually allocate memory.

use crate::page::Pages;

/// What an operation found missing while it held locks, usually memory. The operation releases its locks,
/// allocates the memory and restarts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Needed {
    /// Nothing: the tree has changed, and the operation only has to restart.
    Retry,
    /// Removal of the pages of 1 GiB that overlap these pages. Only the step of a
    /// [transaction](crate::transaction) requests this.
    SmallPages(Pages),
    /// Tree nodes and page tables, as many as [`Nodes`] counts.
    Nodes(Nodes),
    /// A leaf and its table. If `is_large`, also a large page, as for `LargePage`.
    Leaf { is_large: bool },
    /// Memory for lists of extents: one working copy and `latches` latches, each with room for `room`
    /// extents.
    Extents { latches: usize, room: usize },
    /// `count` palettes, each with room for `room` attributes.
    Palettes { count: usize, room: usize },
    /// A page of zeros.
    Page,
    /// A large page of zeros. If the machine has none, the pool records this, and the operation continues
    /// without a large page.
    LargePage,
    /// A table for the index of an object.
    Block,
    /// Memory for this many backings.
    Backings(usize),
}

/// How many tree nodes and page tables an operation needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Nodes {
    pub(crate) leaves: usize,
    pub(crate) branches: usize,
    /// Frames for page tables, in which all entries are absent.
    pub(crate) tables: usize,
}

impl Nodes {
    /// A leaf and its table.
    pub(crate) const LEAF_AND_TABLE: Nodes = Nodes { leaves: 1, branches: 0, tables: 1 };
    pub(crate) const LEAF: Needed = Needed::Nodes(Nodes { leaves: 1, branches: 0, tables: 0 });
    pub(crate) const BRANCH: Needed = Needed::Nodes(Nodes { leaves: 0, branches: 1, tables: 1 });
    pub(crate) const TABLE: Needed = Needed::Nodes(Nodes { leaves: 0, branches: 0, tables: 1 });
}
