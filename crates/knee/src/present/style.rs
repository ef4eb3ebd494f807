//! How text looks on a terminal. [`crate::stdout`] drops styles where there is no terminal.

use anstyle::{AnsiColor, Color, Style};

pub(crate) const PLAIN: Style = Style::new();
pub(crate) const BOLD: Style = Style::new().bold();
pub(crate) const DIM: Style = Style::new().dimmed();
/// Of what is better than before.
pub(crate) const GOOD: Style = Style::new().fg_color(Some(Color::Ansi(AnsiColor::Green)));
/// Of what is worse than before, lost or missing.
pub(crate) const BAD: Style = Style::new().fg_color(Some(Color::Ansi(AnsiColor::Yellow)));

/// Placeholder for an unknown number.
pub(crate) const UNKNOWN: &str = "-";
