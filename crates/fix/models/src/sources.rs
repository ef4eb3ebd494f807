//! Finds the mutants that are marked in the sources of a crate.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// The names of all mutants that are marked in the files of a directory and its subdirectories.
pub(crate) fn marked(directory: &Path) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for entry in fs::read_dir(directory).expect("read the sources") {
        let path = entry.expect("list the sources").path();
        if path.is_dir() {
            names.extend(marked(&path));
        } else {
            names.extend(marked_in(&fs::read_to_string(path).expect("read a source")));
        }
    }
    names
}

/// The string literals in the arguments of `is_mutant!` and `order!`.
fn marked_in(source: &str) -> impl Iterator<Item = String> {
    let calls = ["is_mutant!(", "order!("].into_iter().flat_map(|mark| source.split(mark).skip(1));
    calls.flat_map(|after| {
        let arguments = after.split(')').next().unwrap_or_default();
        // A call without a literal, as in the definition of `order!`, names no mutant.
        arguments.split('"').skip(1).step_by(2).map(str::to_owned)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_literal_in_a_mark_is_the_name_of_a_mutant() {
        let source = r#"
            if is_mutant!("one", "two") || order!(Acquire, "three") == Relaxed { say("four") }
            $crate::is_mutant!($mutant)
        "#;
        assert!(marked_in(source).eq(["one", "two", "three"]));
    }
}
