//! A triangular table of pairs: the row of an operation has a cell for each operation up to itself.
//! Beside it, the script shows the pair of the selected cell.

use maud::{Markup, html};

/// `operations` are names with descriptions, `details` is a label for the details of a pair, and
/// `cell` returns the cell for the indices of a column and a row.
///
/// The name of an operation is at both ends of its row. At the right end, it is the head of the
/// column below.
pub(super) fn triangle(
    name: &str,
    operations: &[(&str, &str)],
    details: &str,
    cell: impl Fn(usize, usize) -> Markup,
) -> Markup {
    html! {
        div.matrix-and-pair {
            div.scroll role="region" aria-label={ "Matrix of " (name) } {
                table.matrix {
                    tbody {
                        @for (row, (name, about)) in operations.iter().enumerate() {
                            tr {
                                th scope="row" title=[(!about.is_empty()).then_some(about)] { (name) }
                                @for column in 0..=row { (cell(column, row)) }
                                // In the empty half of the table.
                                th.column-name colspan=(operations.len() - row) aria-hidden="true" {
                                    (name)
                                }
                            }
                        }
                    }
                }
            }
            div.chosen-pair hidden {
                p.note { "Point at a cell, or move with the arrow keys, to see its details. A \
                    click pins the cell." }
                div.shown-pair tabindex="0" role="region" aria-label=(details) {}
            }
        }
    }
}

/// The colour class of a cell for a share in whole per cent. 0 and 100 have their own classes; the
/// shares between them have [`COLOURS`] classes.
pub(super) fn heat(percent: usize) -> String {
    match percent {
        0 => "never".to_owned(),
        100 => "always".to_owned(),
        some => format!("heat{}", some * COLOURS / 100),
    }
}

/// Number of colours for shares from 1 to 99%, one for each tenth.
pub(super) const COLOURS: usize = 10;
