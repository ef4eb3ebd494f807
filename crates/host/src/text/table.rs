//! Tables that fit a terminal: columns drop out in a stated order, and the last one wraps.

use std::fmt;

use textwrap::core::display_width;

use super::style::Style;
use super::{NARROWEST, Screen, clean, markdown, plain, to_ascii};

const DIM: Style = Style::DIM;
/// What stands in a cell whose value is unknown.
pub const UNKNOWN: &str = "-";

/// A table of text. Column widths follow from the cells.
#[derive(Debug, Clone, Default)]
pub struct Table {
    columns: Vec<Column>,
    lines: Vec<Line>,
}

/// A column of a [`Table`].
#[derive(Debug, Clone)]
pub struct Column {
    title: String,
    is_right: bool,
    /// Spaces before it.
    gap: usize,
    /// Its place in the order in which columns drop out; `None` stays.
    drops: Option<u8>,
}

/// A piece of text in a table, in one style.
#[derive(Debug, Clone, Default)]
pub struct Cell {
    text: String,
    style: Style,
}

#[derive(Debug, Clone)]
enum Line {
    Cells(Vec<Cell>),
    Titles(Vec<Cell>),
    /// Text across all columns.
    Text(String),
}

impl Column {
    /// A column of words.
    pub fn left(title: impl Into<String>) -> Self {
        Self { title: title.into(), is_right: false, gap: 2, drops: None }
    }

    /// A column of numbers.
    pub fn right(title: impl Into<String>) -> Self {
        Self { is_right: true, ..Self::left(title) }
    }

    /// The same column with `gap` spaces before it instead of two.
    #[must_use]
    pub fn gap(self, gap: usize) -> Self {
        Self { gap, ..self }
    }

    /// The same column, which drops out of a table that is too wide: those with the lowest `order`
    /// first, and all with the same `order` together.
    #[must_use]
    pub fn drops(self, order: u8) -> Self {
        Self { drops: Some(order), ..self }
    }

    /// The same column, as number `nr` of a series of `len` columns of which some drop out, so that
    /// those which stay are spread evenly: halves stay longer than quarters. The first one goes
    /// after these, the last one stays. Takes the orders from `order` to `order` + 7.
    #[must_use]
    pub fn in_series(self, nr: usize, len: usize, order: u8) -> Self {
        const STEPS: usize = 64;
        match nr {
            _ if nr + 1 >= len => self,
            0 => self.drops(order + 7),
            nr => self.drops(order + (nr * STEPS / (len - 1)).trailing_zeros() as u8),
        }
    }
}

impl Cell {
    /// Text in a style. Control characters are replaced here, so that they do not affect the widths
    /// of columns.
    pub fn new(text: impl Into<String>, style: Style) -> Self {
        Self { text: clean(&text.into()).into_owned(), style }
    }
}

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self::new(text, Style::PLAIN)
    }
}

impl Table {
    /// A table without rows.
    pub fn new(columns: Vec<Column>) -> Self {
        Self { columns, lines: Vec::new() }
    }

    /// Adds a row. Cells that are missing at its end are empty. Only a cell in the last column may
    /// have several lines.
    pub fn row(&mut self, mut cells: Vec<Cell>) {
        debug_assert!(cells.len() <= self.columns.len(), "a cell without a column");
        for cell in cells.iter_mut().take(self.columns.len().saturating_sub(1)) {
            if cell.text.contains(['\n', '\t']) {
                cell.text = cell.text.replace(['\n', '\t'], " ");
            }
        }
        self.lines.push(Line::Cells(cells));
    }

    /// Adds a row with the titles of the columns.
    pub fn titles(&mut self) {
        let titles = self.columns.iter().map(|column| Cell::new(&column.title, Style::BOLD));
        self.lines.push(Line::Titles(titles.collect()));
    }

    /// Like [`Table::titles`], with another title for one of the columns.
    pub fn titles_but(&mut self, column: usize, title: &str) {
        let own = std::mem::replace(&mut self.columns[column].title, title.to_owned());
        self.titles();
        self.columns[column].title = own;
    }

    /// Adds text across all columns. It wraps, and does not widen columns.
    pub fn text(&mut self, text: impl Into<String>) {
        self.lines.push(Line::Text(text.into()));
    }

    /// The table as text that fits `screen` where that is possible. Its last line names the columns
    /// that dropped out, if any.
    pub fn render(&self, screen: &Screen) -> String {
        if screen.is_ascii {
            return self.to_ascii().render(&Screen { is_ascii: false, ..*screen });
        }
        let mut widths = self.widths();
        let mut dropped = String::new();
        if let Some(width) = screen.width {
            self.drop_columns(&mut widths, width);
            let titles = self.columns.iter().zip(&widths).filter(|(_, width)| width.is_none());
            let titles = titles.map(|(column, _)| column.title.as_str());
            let titles: Vec<&str> = titles.filter(|title| !title.is_empty()).collect();
            if !titles.is_empty() {
                let titles = titles.join(", ");
                dropped = format!(
                    "{DIM}left out to fit {width} columns: {titles} (| cat shows all){DIM:#}\n"
                );
            }
        }
        let mut text = String::new();
        for line in &self.lines {
            match line {
                Line::Cells(cells) | Line::Titles(cells) => {
                    self.put_row(&mut text, cells, &widths, screen.width)
                }
                Line::Text(line) => {
                    text.push_str(&screen.wrap(line, ""));
                    text.push('\n');
                }
            }
        }
        text + &screen.wrap(&dropped, "  ")
    }

    /// A table for Markdown, with aligned columns so that its source is readable too. Cells that Markdown would not
    /// show as they are become code. The first row is the header. Styles and lines of text are left out.
    ///
    /// # Panics
    /// If the table has no row.
    pub fn markdown(&self) -> String {
        let escape = |cell: &Cell| markdown::cell(&cell.text);
        let cells = self.lines.iter().filter_map(|line| match line {
            Line::Cells(cells) | Line::Titles(cells) => Some(cells.iter().map(escape).collect()),
            Line::Text(_) => None,
        });
        let rows: Vec<Vec<String>> = cells.collect();
        let width = |nr: usize| {
            let cells = rows.iter().filter_map(|row| row.get(nr));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let columns: Vec<(&Column, usize)> = self.columns.iter().zip((0..).map(width)).collect();
        let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
        let aligned = |row: &Vec<String>| {
            let cells =
                columns.iter().zip(row).map(|((column, width), cell)| match column.is_right {
                    true => format!("{cell:>width$}"),
                    false => format!("{cell:width$}"),
                });
            line(cells.collect())
        };
        let rules = columns.iter().map(|(column, width)| match column.is_right {
            true => "-".repeat(width - 1) + ":",
            false => "-".repeat(*width),
        });
        let mut lines: Vec<String> = rows.iter().map(aligned).collect();
        lines.insert(1, line(rules.collect()));
        lines.concat()
    }

    /// Takes the width from columns until the others need at most `width`: first from those without any value,
    /// then in their order.
    fn drop_columns(&self, widths: &mut [Option<usize>], width: usize) {
        if self.needs(widths) > width {
            for (_, width) in widths.iter_mut().enumerate().filter(|(nr, _)| self.is_unknown(*nr)) {
                *width = None;
            }
        }
        while self.needs(widths) > width {
            let kept = self.columns.iter().zip(widths.iter()).filter(|(_, width)| width.is_some());
            let Some(next) = kept.filter_map(|(column, _)| column.drops).min() else { break };
            for (column, width) in self.columns.iter().zip(widths.iter_mut()) {
                if column.drops == Some(next) {
                    *width = None;
                }
            }
        }
    }

    fn to_ascii(&self) -> Self {
        let mut table = self.clone();
        let cells = table.lines.iter_mut().flat_map(|line| match line {
            Line::Cells(cells) | Line::Titles(cells) => {
                cells.iter_mut().map(|cell| &mut cell.text).collect()
            }
            Line::Text(text) => vec![text],
        });
        let titles = table.columns.iter_mut().map(|column| &mut column.title);
        for text in cells.chain(titles) {
            *text = to_ascii(text).into_owned();
        }
        table
    }

    /// The width of each column: of its widest cell.
    fn widths(&self) -> Vec<Option<usize>> {
        let mut widths = vec![Some(0); self.columns.len()];
        for line in &self.lines {
            let (Line::Cells(cells) | Line::Titles(cells)) = line else { continue };
            for (cell, width) in cells.iter().zip(&mut widths) {
                *width = (*width).max(Some(display_width(&cell.text)));
            }
        }
        widths
    }

    /// Whether column `nr` has cells, and all of their values are unknown.
    fn is_unknown(&self, nr: usize) -> bool {
        let cells = self.lines.iter().filter_map(|line| match line {
            Line::Cells(cells) => cells.get(nr),
            Line::Titles(_) | Line::Text(_) => None,
        });
        let mut values =
            cells.map(|cell| cell.text.as_str()).filter(|text| !text.is_empty()).peekable();
        values.peek().is_some() && values.all(|text| text == UNKNOWN)
    }

    /// Whether the last column is text, which wraps.
    fn wraps(&self) -> bool {
        self.columns.last().is_some_and(|column| !column.is_right)
    }

    /// The columns of a terminal that the table needs.
    fn needs(&self, widths: &[Option<usize>]) -> usize {
        let last = widths.len().saturating_sub(1);
        let shown = self.columns.iter().zip(widths).enumerate();
        let shown = shown.filter_map(|(nr, (column, width))| Some((nr, column, (*width)?)));
        shown
            .enumerate()
            .map(|(place, (nr, column, width))| {
                let width = if nr == last && self.wraps() { width.min(NARROWEST) } else { width };
                width + if place == 0 { 0 } else { column.gap }
            })
            .sum()
    }

    fn put_row(
        &self,
        text: &mut String,
        cells: &[Cell],
        widths: &[Option<usize>],
        terminal: Option<usize>,
    ) {
        use std::fmt::Write;

        let mut at = 0;
        // Spaces are written only before text, so that no line ends in one.
        let mut spaces = 0;
        let last = self.columns.len() - 1;
        for (nr, (column, width)) in self.columns.iter().zip(widths).enumerate() {
            let Some(width) = *width else { continue };
            let cell = cells.get(nr).cloned().unwrap_or_default();
            let gap = if at == 0 { 0 } else { column.gap };
            let own = display_width(&cell.text);
            let Cell { text: content, style } = cell;
            let before = gap + if column.is_right { width - own } else { 0 };
            let after = if column.is_right { 0 } else { width - own };
            if content.is_empty() {
                spaces += before + after;
            } else {
                let _ = write!(text, "{:1$}{style}", "", spaces + before);
                let room = terminal
                    .filter(|_| nr == last)
                    .map(|width| width.saturating_sub(at + gap).max(NARROWEST));
                let indent = " ".repeat(at + gap);
                let wrapped = Screen { width: room, is_ascii: false }.wrap(&content, "");
                let _ = write!(text, "{}{style:#}", wrapped.replace('\n', &format!("\n{indent}")));
                spaces = after;
            }
            at += gap + width;
        }
        text.push('\n');
    }
}

/// The whole table as plain text.
impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&plain(&self.render(&Screen::UNLIMITED)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table = Table::new(vec![
            Column::left("point"),
            Column::right("before").drops(2),
            Column::right("change"),
            Column::right("p").drops(1),
            Column::left("verdict"),
        ]);
        table.titles();
        let verdict = "no difference found; 5 rounds would decide";
        table.row(["mmap1", "1.5 M", "+3%", "0.01", verdict].map(Cell::from).to_vec());
        table.row(["a", "", "-10%"].map(Cell::from).to_vec());
        table
    }

    fn screen(width: usize) -> Screen {
        Screen { width: Some(width), is_ascii: false }
    }

    #[test]
    fn a_pipe_gets_all_columns_without_spaces_at_line_ends() {
        assert_eq!(
            plain(&table().render(&Screen::UNLIMITED)),
            "point  before  change     p  verdict\n\
             mmap1   1.5 M     +3%  0.01  no difference found; 5 rounds would decide\n\
             a                -10%\n"
        );
    }

    #[test]
    fn columns_drop_out_in_their_order_and_the_last_one_wraps() {
        let text = plain(&table().render(&screen(48))).into_owned();
        assert_eq!(
            text,
            "point  before  change  verdict\n\
             mmap1   1.5 M     +3%  no difference found; 5\n                       \
             rounds would decide\n\
             a                -10%\n\
             left out to fit 48 columns: p (| cat shows all)\n"
        );
        let text = plain(&table().render(&screen(40))).into_owned();
        assert!(text.starts_with("point  change  verdict\n"), "{text}");
        assert!(text.contains("\nleft out to fit 40 columns: before, p ("), "{text}");
    }

    #[test]
    fn columns_without_any_value_drop_out_first() {
        let mut table = Table::new(vec![
            Column::left("point"),
            Column::right("1 task").drops(1),
            Column::right("effic."),
        ]);
        table.titles();
        table.row(["mmap1", "1.5 M", "-"].map(Cell::from).to_vec());
        table.row(["brk1", "2 M", ""].map(Cell::from).to_vec());
        let shown = |table: &Table, width| plain(&table.render(&screen(width))).into_owned();
        assert!(shown(&table, 21).starts_with("point  1 task  effic.\nmmap1"));
        assert!(shown(&table, 20).starts_with("point  1 task\nmmap1"), "{}", shown(&table, 20));
        table.row(["fork1", "3 M", "90%"].map(Cell::from).to_vec());
        assert!(shown(&table, 20).starts_with("point  effic.\n"), "{}", shown(&table, 20));
    }

    #[test]
    fn every_line_fits_if_the_remaining_columns_fit() {
        for width in 36..120 {
            for line in plain(&table().render(&screen(width))).lines() {
                assert!(line.chars().count() <= width, "{width}: {line}");
            }
        }
    }

    #[test]
    fn the_columns_of_a_series_drop_out_evenly() {
        let columns = (0..9).map(|nr| Column::right(nr.to_string()).in_series(nr, 9, 1));
        let mut table = Table::new(columns.collect());
        table.titles();
        let shown = |width| plain(&table.render(&screen(width))).lines().next().unwrap().to_owned();
        assert_eq!(shown(25), "0  1  2  3  4  5  6  7  8");
        assert_eq!(shown(24), "0  2  4  6  8");
        assert_eq!(shown(12), "0  4  8");
        assert_eq!(shown(6), "0  8");
        assert_eq!(shown(3), "8");
    }

    #[test]
    fn columns_are_aligned_in_ascii_too() {
        let mut table = Table::new(vec![Column::right("±"), Column::right("µs")]);
        table.titles();
        table.row(["×2", "7"].map(Cell::from).to_vec());
        let text = table.render(&Screen { width: None, is_ascii: true });
        assert_eq!(plain(&text), "+-  us\nx2   7\n");
    }

    #[test]
    fn a_name_with_control_characters_neither_shifts_columns_nor_adds_lines() {
        let mut table = Table::new(vec![Column::left("name"), Column::left("verdict")]);
        table.titles();
        table.row(["\x1b[31m\0a\nb", "same"].map(Cell::from).to_vec());
        table.row(["1234567890", "same"].map(Cell::from).to_vec());
        assert_eq!(
            plain(&table.render(&Screen::UNLIMITED)),
            "name        verdict\n�[31m�a b   same\n1234567890  same\n"
        );
    }

    #[test]
    fn a_column_without_content_takes_no_room_and_is_not_named() {
        let mut table =
            Table::new(vec![Column::left(""), Column::right("").drops(1), Column::left("")]);
        table.row(["abc", "", "words that are wrapped"].map(Cell::from).to_vec());
        assert!(!table.render(&screen(20)).contains("left out"));
    }
}
