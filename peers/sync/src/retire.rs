//! The cost of replacing an object: allocate, exchange, retire and, sooner or later, free.
//!
//! Each thread replaces an object of its own, and all threads share the collector. Afterwards the program
//! checks that all objects are freed.

use crate::ways::{self, Way};
use side_by_side::{Figure, Row, measure};

/// Objects that may wait when the last sample ends.
const MUCH: i64 = 100_000;

pub(crate) fn figures(rounds: usize) -> Vec<Figure> {
    let ways = ways::all();
    let rows: Vec<&Row> = ways.iter().map(|way| &way.row).collect();
    let figures = measure("retire", &rows, rounds, 0);
    end(&ways);
    figures
}

/// Reports libraries that have deferred more than a little of the measured work, and finishes that work.
pub(crate) fn end(ways: &[Way]) {
    for way in ways {
        let garbage = (way.garbage)();
        if garbage > MUCH {
            println!("{garbage} objects were not freed yet at the end: {}\n", way.row.name);
        }
        (way.drain)();
    }
}
