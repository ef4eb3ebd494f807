//! Notes below a table: what a reader has to know before trusting the table.

use std::fmt::{Display, Write};

use knee_host::text::{Screen, one_line};

use super::style::DIM;

/// Maximum notes below a table without `--detail`.
const MOST: usize = 3;

/// What to do about points that other work disturbed.
pub(crate) const CALMER: &str =
    "reduce other load, or measure again with --wait-quiet or more --patience";

/// Lines with the most important of `notes`, which are sorted by importance, and a line that counts
/// the others. `all` says how to print all notes. If it is `None`, returns all notes.
pub(crate) fn lines<N: Display>(
    notes: impl IntoIterator<Item = N>,
    all: Option<&str>,
    screen: &Screen,
) -> String {
    let notes: Vec<N> = notes.into_iter().collect();
    let shown = if all.is_some() { notes.len().min(MOST) } else { notes.len() };
    let mut text = String::new();
    for note in &notes[..shown] {
        let line = format!("{DIM}note{DIM:#}  {}", one_line(&note.to_string()));
        let _ = writeln!(text, "{}", screen.wrap(&line, "      "));
    }
    if let (Some(all), more @ 1..) = (all, notes.len() - shown) {
        let notes = if more == 1 { "note" } else { "notes" };
        let line = format!("{DIM}      {more} more {notes}: {}{DIM:#}", one_line(all));
        let _ = writeln!(text, "{}", screen.wrap(&line, "      "));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_notes_are_printed_and_the_others_counted() {
        let notes = ["a", "b", "c", "d", "e"];
        let text = lines(notes, Some("knee show X --detail"), &Screen::UNLIMITED);
        let plain = knee_host::text::plain(&text).to_string();
        assert_eq!(plain, "note  a\nnote  b\nnote  c\n      2 more notes: knee show X --detail\n");
        assert_eq!(lines(notes, None, &Screen::UNLIMITED).lines().count(), 5);
        assert!(!lines(&notes[..3], Some("x"), &Screen::UNLIMITED).contains("more"));
    }
}
