//! A triangle of figures, one for each pair of operations.

use std::fmt::Write;

use knee_host::text::Screen;

/// The width of `100%`.
const NARROWEST: usize = 4;

/// The triangle, in blocks of as many columns as fit the screen, each with the names of its columns and
/// an empty line below. `cell` returns the text for a column and a row.
pub(super) fn triangle(
    names: &[impl AsRef<str>],
    screen: &Screen,
    cell: impl Fn(usize, usize) -> String,
) -> String {
    let names: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
    let widths: Vec<usize> = names.iter().map(|name| name.len().max(NARROWEST)).collect();
    let head = names.iter().map(|name| name.len()).max().unwrap_or(0);
    let mut text = String::new();
    let mut first = 0;
    while first < names.len() {
        let end = first + fitting(&widths[first..], head, screen);
        for (row, name) in names.iter().enumerate().skip(first) {
            let _ = write!(text, "{name:head$}");
            let columns = widths.iter().enumerate().take(end.min(row + 1)).skip(first);
            for (column, width) in columns {
                let _ = write!(text, " {:>width$}", cell(column, row));
            }
            text.push('\n');
        }
        let _ = write!(text, "{:head$}", "");
        for (name, width) in names[first..end].iter().zip(&widths[first..end]) {
            let _ = write!(text, " {name:>width$}");
        }
        text.push_str("\n\n");
        first = end;
    }
    text
}

/// The count of columns that fit the screen beside the `head` of the rows, at least one.
fn fitting(widths: &[usize], head: usize, screen: &Screen) -> usize {
    let Some(screen) = screen.width else { return widths.len() };
    let mut used = head;
    let fits = |width: &&usize| {
        used += 1 + **width;
        used <= screen
    };
    widths.iter().take_while(fits).count().max(1)
}
