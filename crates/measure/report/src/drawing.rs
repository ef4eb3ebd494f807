//! The matrix of a check as a separate drawing, in the style of COMMUTER's figures. Each pair of
//! operations has a cell with the number of tests that are not conflict-free. A greater share of
//! such tests makes the cell darker.
//!
//! Colours are literal, because SVG programs other than browsers do not support CSS variables.

use knee_host::text::plain;
use maud::{Markup, html};

use crate::shared::{Counts, Shared};

/// The colours `--heat0` to `--heat9` of the page, for an increasing share of conflict-free tests.
const HEAT: [&str; 10] = [
    "#6d1e00", "#862901", "#9e3803", "#b24a0f", "#dd6f23", "#eb883b", "#efa464", "#f4bc86",
    "#f9d3a9", "#fce8cd",
];
/// Number of colours with white text.
const STRONG: usize = 4;
const NEVER: &str = "#16191d";
const ALWAYS: &str = "#f5f7f9";
const MUTED: &str = "#55606b";

const CELL: usize = 34;
const ROW: usize = 24;
/// Width of a letter in a name.
const LETTER: usize = 7;
const MARGIN: usize = 16;
/// Height of the title and the total.
const HEAD: usize = 64;

/// The matrix as an SVG document.
pub fn draw(shared: &Shared) -> String {
    let names = &shared.operations;
    let longest = names.iter().map(String::len).max().unwrap_or(0) * LETTER;
    let left = MARGIN + longest + 8;
    let title = &shared.name;
    let total = shared.total().sentence();
    let least = MARGIN * 2 + title.len().max(total.len()) * 9;
    let width = (left + names.len() * CELL + longest + MARGIN).max(least);
    let height = HEAD + names.len() * ROW + MARGIN + 2 * ROW + MARGIN;
    let drawing = html! {
        svg xmlns="http://www.w3.org/2000/svg" width=(width) height=(height)
            viewBox={ "0 0 " (width) " " (height) } role="img" font-size="12"
            font-family="system-ui, 'Liberation Sans', Arial, sans-serif" {
            title { (title) ": " (total) }
            rect width=(width) height=(height) fill="#ffffff" {}
            text x=(MARGIN) y="28" font-size="17" font-weight="600" fill=(NEVER) { (title) }
            text x=(MARGIN) y="49" font-size="13" fill=(MUTED) { (total) }
            @for (row, name) in names.iter().enumerate() {
                @let y = HEAD + row * ROW;
                text x=(left - 8) y=(y + 16) text-anchor="end" fill=(NEVER) { (name) }
                @for (column, other) in names[..=row].iter().enumerate() {
                    @let place = [left + column * CELL, y];
                    @match shared.counts(column, row) {
                        Some(counts) => (cell(place, [other, name], counts)),
                        None => (number(place, MUTED, "–")),
                    }
                }
                // In the empty half of the matrix: the head of the column below.
                text x=(left + (row + 1) * CELL + 6) y=(y + 16) fill=(MUTED) { (name) }
            }
            (legend([MARGIN, HEAD + names.len() * ROW + MARGIN]))
        }
    };
    // maud does not replace the control characters that XML forbids.
    plain(&drawing.into_string()).into_owned() + "\n"
}

fn cell([x, y]: [usize; 2], [a, b]: [&String; 2], counts: Counts) -> Markup {
    let (fill, ink) = colours(counts.percent());
    html! {
        g {
            title { (a) " and " (b) ": " (counts.sentence()) }
            rect x=(x) y=(y) width=(CELL - 2) height=(ROW - 2) rx="3" fill=(fill) {}
            @if counts.others() > 0 {
                (number([x, y], ink, &counts.others().to_string()))
            }
        }
    }
}

fn number([x, y]: [usize; 2], ink: &str, text: &str) -> Markup {
    let (x, y) = (x + (CELL - 2) / 2, y + 15);
    html! { text x=(x) y=(y) text-anchor="middle" font-size="11" fill=(ink) { (text) } }
}

/// The colours of a cell and of the number in it.
fn colours(percent: usize) -> (&'static str, &'static str) {
    match percent {
        0 => (NEVER, "#ffffff"),
        100 => (ALWAYS, MUTED),
        some => {
            let level = some / HEAT.len();
            (HEAT[level], if level < STRONG { "#ffffff" } else { "#000000" })
        }
    }
}

fn legend([x, y]: [usize; 2]) -> Markup {
    let scale =
        [100].into_iter().chain((0..HEAT.len()).rev().map(|level| level * 10 + 5)).chain([0]);
    html! {
        text x=(x) y=(y + 12) fill=(MUTED) {
            "Number and share of tests that are not conflict-free"
        }
        text x=(x) y=(y + 36) fill=(MUTED) { "none" }
        @for (nr, percent) in scale.enumerate() {
            rect x=(x + 36 + nr * 18) y=(y + 22) width="18" height="18" fill=(colours(percent).0) {}
        }
        text x=(x + 36 + 12 * 18 + 8) y=(y + 36) fill=(MUTED) { "all" }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared::SharedVerdict;

    #[test]
    fn the_colours_are_those_of_the_page() {
        let style = include_str!("../assets/report.css");
        for (nr, colour) in HEAT.iter().enumerate() {
            assert!(style.contains(&format!("--heat{nr}: {colour};")), "{nr}: {colour}");
        }
        for (name, colour) in [("text", NEVER), ("panel", ALWAYS), ("muted", MUTED)] {
            assert!(style.contains(&format!("--{name}: {colour};")), "{name}: {colour}");
        }
    }

    #[test]
    fn a_drawing_has_no_character_that_xml_forbids() {
        let operations = ["op\x1b[31men", "cl\0o\u{ffff}se\u{202e}"].map(str::to_owned).to_vec();
        let mut shared = Shared::new("Lin\x08ux", operations.clone());
        let pair = [operations[0].as_str(), &operations[1]];
        shared.add("1", &pair, SharedVerdict::Conflict, "\x07".to_owned(), []);
        let svg = draw(&shared);
        assert!(svg.contains("op�[31men and cl�o�se�: 0 of 1 test is conflict-free"), "{svg}");
        assert_eq!(plain(&svg), svg);
    }

    #[test]
    fn a_cell_has_the_number_of_tests_that_are_not_conflict_free() {
        let operations = ["open", "<close>"].map(str::to_owned).to_vec();
        let mut shared = Shared::new("Linux & so on", operations);
        let verdicts = [SharedVerdict::Conflict, SharedVerdict::Sometimes, SharedVerdict::Free];
        for (nr, verdict) in verdicts.into_iter().enumerate() {
            shared.add(&nr.to_string(), &["open", "<close>"], verdict, String::new(), []);
        }
        shared.add("3", &["open", "open"], SharedVerdict::Free, String::new(), []);
        let svg = draw(&shared);
        assert!(svg.contains("open and &lt;close&gt;: 1 of 3 tests are conflict-free (33.3%)"));
        assert!(
            svg.contains(&format!("fill=\"{}\"", HEAT[3])) && svg.contains(">2</text>"),
            "{svg}"
        );
        assert!(svg.contains("Linux &amp; so on: 2 of 4 tests are conflict-free"));
        // A conflict-free cell is empty, and a pair without tests has no cell.
        assert!(!svg.contains(">0</text>"));
        assert!(!svg.contains("&lt;close&gt; and &lt;close&gt;"));
    }
}
