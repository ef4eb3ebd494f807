//! A table of pairs: a row per operation, with a cell for each up to itself. Beside it, the script
//! shows the pair of the chosen cell.

use maud::{Markup, html};

/// `operations`: names, and what they do. `details`: what the script shows of a pair. `cell`: of a
/// column and a row, by number.
///
/// The name of an operation stands at both ends of its row, where it is the head of the column
/// below.
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
                                // Over the cells that are not there.
                                th.column-name colspan=(operations.len() - row) aria-hidden="true" {
                                    (name)
                                }
                            }
                        }
                    }
                }
            }
            div.chosen-pair hidden {
                p.note { "Point at a cell, or move with the arrow keys; a click pins it." }
                div.shown-pair tabindex="0" role="region" aria-label=(details) {}
            }
        }
    }
}

/// The colour of a cell for a share in whole per cent: 0 and 100 are told from all others, which have
/// as many colours as [`COLOURS`].
pub(super) fn heat(percent: usize) -> String {
    match percent {
        0 => "never".to_owned(),
        100 => "always".to_owned(),
        some => format!("heat{}", some * COLOURS / 100),
    }
}

/// Shares from 1 to 99% are drawn in as many colours, a tenth each.
pub(super) const COLOURS: usize = 10;
