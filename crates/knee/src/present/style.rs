//! Text styles on a terminal. [`crate::stdout`] removes them if its output is not a terminal.

use knee_host::text::Style;

pub(crate) const PLAIN: Style = Style::PLAIN;
pub(crate) const BOLD: Style = Style::BOLD;
pub(crate) const DIM: Style = Style::DIM;
/// Marks an improvement.
pub(crate) const GOOD: Style = Style::GREEN;
/// Marks a regression, a knee, disturbed samples or a missing result.
pub(crate) const BAD: Style = Style::YELLOW;

pub(crate) use knee_host::text::UNKNOWN;
