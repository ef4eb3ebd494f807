//! What the text shows.

/// What the text shows.
pub(crate) struct View<'a> {
    /// In the order of rows.
    pub(crate) operations: &'a [&'a str],
    /// Numbers of CPUs, ascending; the first is 1.
    pub(crate) cpus: &'a [u32],
    /// Hottest lines of each operation that are named.
    pub(crate) lines: usize,
}
