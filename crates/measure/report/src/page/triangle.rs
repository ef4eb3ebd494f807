//! A table of pairs: a row per operation, with a cell for each up to itself.

use maud::{Markup, html};

/// `operations`: names, and what they do. `cell`: of a column and a row, by number.
///
/// The name of an operation stands at both ends of its row, where it is the head of the column
/// below.
pub(super) fn triangle(
    operations: &[(&str, &str)],
    cell: impl Fn(usize, usize) -> Markup,
) -> Markup {
    html! {
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
