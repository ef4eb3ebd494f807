//! A triangle of figures, one for each pair of operations.

use std::fmt::Write;
use std::ops::Range;

use knee_host::text::Screen;

/// The triangle, in blocks of as many columns as fit the screen, each with an empty line below. `cell`
/// returns the text for a column and a row; a column is at least as wide as `100%`.
pub(super) fn triangle(
    names: &[impl AsRef<str>],
    screen: &Screen,
    cell: impl Fn(usize, usize) -> String,
) -> String {
    let names: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
    let mut text = String::new();
    let mut first = 0;
    while first < names.len() {
        let block = block(&names, first, screen);
        first = block.end;
        rows(&mut text, &names, block, &cell);
    }
    text
}

/// The width of a column: of its name, or of `100%`.
fn column(name: &str) -> usize {
    name.len().max(4)
}

/// The width of the names of the rows.
fn first_column(names: &[&str]) -> usize {
    names.iter().map(|name| name.len()).max().unwrap_or(0)
}

/// The columns from `first` on that fit the screen beside the names of the rows, at least one.
fn block(names: &[&str], first: usize, screen: &Screen) -> Range<usize> {
    let Some(width) = screen.width else { return first..names.len() };
    let mut used = first_column(names);
    let fits = |name: &&&str| {
        used += 1 + column(name);
        used <= width
    };
    let columns = names[first..].iter().take_while(fits).count();
    first..first + columns.max(1)
}

/// The rows that have some of `columns`, with the names of the columns below.
fn rows(
    text: &mut String,
    names: &[&str],
    columns: Range<usize>,
    cell: impl Fn(usize, usize) -> String,
) {
    let width = first_column(names);
    for (row, name) in names.iter().enumerate().skip(columns.start) {
        let _ = write!(text, "{name:width$}");
        let end = columns.end.min(row + 1);
        for (at, head) in names.iter().enumerate().take(end).skip(columns.start) {
            let _ = write!(text, " {:>1$}", cell(at, row), column(head));
        }
        text.push('\n');
    }
    let _ = write!(text, "{:width$}", "");
    for name in &names[columns] {
        let _ = write!(text, " {name:>0$}", column(name));
    }
    text.push_str("\n\n");
}
