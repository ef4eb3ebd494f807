//! How the table looks.

pub(super) const BOLD: anstyle::Style = anstyle::Style::new().bold();
pub(super) const DIM: anstyle::Style = anstyle::Style::new().dimmed();
pub(super) const PLAIN: anstyle::Style = anstyle::Style::new();
pub(super) const BAD: anstyle::Style =
    anstyle::Style::new().fg_color(Some(anstyle::Color::Ansi(anstyle::AnsiColor::Yellow)));

/// What stands for a number that is not known.
pub(super) const UNKNOWN: &str = "-";
