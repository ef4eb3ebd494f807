//! What an operation has to allocate before it can go on.

/// What an operation finds missing under locks. It gives the locks back, allocates it, and begins again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Needed {
    /// Nothing: the tree has changed.
    Retry,
    /// This many nodes of a tree.
    Nodes(Nodes),
    /// Room for a branch's extents, and `latches` with as much room.
    Extents { latches: usize, room: usize },
    /// `count` palettes with this room.
    Palettes { count: usize, room: usize },
    /// A page of zeros.
    Page,
    /// A table of an object.
    Block,
    /// Memory for this many backings.
    Backings(usize),
}

/// How many of each that a tree is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Nodes {
    pub(crate) leaves: usize,
    pub(crate) branches: usize,
    /// Frames of absent entries.
    pub(crate) tables: usize,
}

impl Nodes {
    pub(crate) const LEAF: Needed = Needed::Nodes(Nodes { leaves: 1, branches: 0, tables: 0 });
    pub(crate) const BRANCH: Needed = Needed::Nodes(Nodes { leaves: 0, branches: 1, tables: 1 });
    pub(crate) const TABLE: Needed = Needed::Nodes(Nodes { leaves: 0, branches: 0, tables: 1 });
}
