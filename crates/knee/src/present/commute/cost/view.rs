//! What the text shows.

/// What the text shows.
pub(crate) struct View<'a> {
    /// The operations, in the order of the rows.
    pub(crate) operations: &'a [&'a str],
    /// CPU counts in ascending order; the first is 1.
    pub(crate) cpus: &'a [u32],
    /// Maximum hot lines to print for each operation.
    pub(crate) lines: usize,
}
