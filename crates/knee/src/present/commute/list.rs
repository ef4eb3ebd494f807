//! Lists that end after a number of lines.

use std::fmt::{Display, Write};

use crate::present::style::DIM;

/// Appends the first `most` of `lines`. If there are more, appends their count, and `hint`.
pub(super) fn list(
    text: &mut String,
    lines: impl ExactSizeIterator<Item = impl Display>,
    most: usize,
    hint: &str,
) {
    let more = lines.len().saturating_sub(most);
    for line in lines.take(most) {
        let _ = writeln!(text, "  {line}");
    }
    if more > 0 {
        let _ = writeln!(text, "  {DIM}and {more} more{hint}{DIM:#}");
    }
}
