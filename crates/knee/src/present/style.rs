//! Text styles on a terminal. [`crate::stdout`] removes them if its output is not a terminal.

use anstyle::{AnsiColor, Color, Style};

pub(crate) const PLAIN: Style = Style::new();
pub(crate) const BOLD: Style = Style::new().bold();
pub(crate) const DIM: Style = Style::new().dimmed();
/// Marks an improvement.
pub(crate) const GOOD: Style = Style::new().fg_color(Some(Color::Ansi(AnsiColor::Green)));
/// Marks a regression, a knee, disturbed samples or a missing result.
pub(crate) const BAD: Style = Style::new().fg_color(Some(Color::Ansi(AnsiColor::Yellow)));

/// Placeholder for an unknown number.
pub(crate) const UNKNOWN: &str = "-";
