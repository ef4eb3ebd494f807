//! Views of a capture. Each view is a function from captures to text or bytes.
//!
//! | module | view | reader |
//! | --- | --- | --- |
//! | [`mod@functions`] | table of functions | a person |
//! | [`mod@tree`] | call tree, callers of a function | a person |
//! | [`mod@flame`] | flame graph of one capture or of two | a browser |
//! | [`mod@folded`] | folded stacks | flame graph tools, `grep` |
//! | [`mod@speedscope`] | speedscope's JSON | speedscope |
//! | [`mod@pprof`] | pprof's protobuf | `go tool pprof`, continuous profilers |
//!
//! Views merge functions with the same name and [`Kind`], whether they are inlined or not. A recursive
//! function counts once per sample in its total.

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

/// For each function, the index of the first function with its name and kind.
pub(crate) fn first_of_name(capture: &Capture) -> Vec<u32> {
    let mut first: HashMap<(&str, Kind), u32> = HashMap::new();
    let functions = capture.functions.iter().enumerate();
    functions
        .map(|(place, function)| {
            *first.entry((&function.name, function.kind)).or_insert(place as u32)
        })
        .collect()
}
