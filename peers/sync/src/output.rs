//! Counts of objects, for people and for programs.

use std::fmt::Write;

use serde_json::{Value, json};

use crate::stall::Stall;

pub(crate) fn stalls(stalls: &[Stall]) -> String {
    let mut table =
        "| objects not freed | behind the reader | when it has left | after 10,000 visits | \
        replacements until < 5,000 | of 1,000 after exit |\n\
        | --- | ---: | ---: | ---: | ---: | ---: |\n"
            .to_owned();
    for Stall { name, during, left, visited, replacements, exited } in stalls {
        let replacements = replacements.map_or("never".to_owned(), |times| times.to_string());
        let _ = writeln!(
            table,
            "| {name} | {during} | {left} | {visited} | {replacements} | {exited} |"
        );
    }
    table
}

pub(crate) fn stalls_json(stalls: &[Stall]) -> Vec<Value> {
    let stall = |of: &Stall| {
        json!({
            "name": of.name.replace(['*', '`'], ""),
            "behind_reader": of.during,
            "reader_left": of.left,
            "after_visits": of.visited,
            "replacements_until_drained": of.replacements,
            "after_exit": of.exited,
        })
    };
    stalls.iter().map(stall).collect()
}
