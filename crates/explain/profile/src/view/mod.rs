//! What a capture shows: each view is a function from captures to text or bytes.
//!
//! | file | view | who reads it |
//! | --- | --- | --- |
//! | [`mod@functions`] | table of functions | a person |
//! | [`mod@tree`] | call tree, callers of a function | a person |
//! | [`mod@flame`] | flame graph, and that of two captures | a browser |
//! | [`mod@folded`] | folded stacks | flame graph tools, `grep` |
//! | [`mod@speedscope`] | speedscope's JSON | speedscope |
//! | [`mod@pprof`] | pprof's protobuf | `go tool pprof`, continuous profilers |
//!
//! Functions of one name and [`Kind`] are one here, whether they are inlined in a place or not. A
//! function that calls itself counts once in what it takes in total.

#[cfg(test)]
pub(crate) mod fixture;
pub mod flame;
pub mod folded;
mod frames;
pub mod functions;
pub mod pprof;
pub mod speedscope;
pub mod tree;

use std::collections::HashMap;

use crate::capture::{Capture, Kind};

/// For each function the place of the first of its name and kind.
pub(crate) fn first_of_name(capture: &Capture) -> Vec<u32> {
    let mut first: HashMap<(&str, Kind), u32> = HashMap::new();
    let functions = capture.functions.iter().enumerate();
    functions
        .map(|(place, function)| {
            *first.entry((&function.name, function.kind)).or_insert(place as u32)
        })
        .collect()
}
