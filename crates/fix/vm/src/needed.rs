//! What an operation has to allocate before it can go on.

/// What an operation finds missing while it has locks. It gives them back, gets that, and begins anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lack {
    /// Nothing: the tree has changed.
    Nothing,
    /// So many nodes of a tree.
    Nodes(Nodes),
    /// Extents with room for so many, and so many copies of a branch's with room for as many.
    Extents { copies: usize, room: usize },
    /// So many lists of kinds with room for so many.
    Kinds { count: usize, room: usize },
    /// A page of zeros.
    Page,
    /// A table of an object.
    Block,
    /// So many backings.
    Backings(usize),
}

/// Numbers of what a tree is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Nodes {
    pub(crate) leaves: usize,
    pub(crate) branches: usize,
    /// Frames of absent entries.
    pub(crate) tables: usize,
}

impl Nodes {
    pub(crate) const LEAF: Lack = Lack::Nodes(Nodes { leaves: 1, branches: 0, tables: 0 });
    pub(crate) const BRANCH: Lack = Lack::Nodes(Nodes { leaves: 0, branches: 1, tables: 1 });
    pub(crate) const TABLE: Lack = Lack::Nodes(Nodes { leaves: 0, branches: 0, tables: 1 });
}
