//! Skips a test if this machine does not have the tool that the test compares knee with. For tests
//! only; all crates of the workspace share it.

use std::fmt::Display;

/// A comma-separated list of what this machine must have, such as `qemu,mkfs,z3`, or `all`.
const REQUIRE: &str = "KNEE_REQUIRE";

/// Prints why a test is skipped. `name` is what the machine lacks.
///
/// # Panics
/// If the environment's `KNEE_REQUIRE` lists `name` or is `all`.
#[track_caller]
pub fn skip(name: &str, reason: impl Display) {
    let required = std::env::var(REQUIRE).unwrap_or_default();
    assert!(!lists(&required, name), "{REQUIRE}={required} requires {name}: {reason}");
    println!("skipped: {reason}");
}

fn lists(required: &str, name: &str) -> bool {
    required.split(',').any(|one| [name, "all"].contains(&one.trim()))
}

#[cfg(test)]
mod tests {
    use super::lists;

    #[test]
    fn a_list_requires_what_it_names_and_all_requires_everything() {
        assert!(lists("qemu, z3", "z3"));
        assert!(!lists("qemu-10", "qemu"));
        assert!(!lists("", "qemu"));
        assert!(lists("all", "qemu"));
    }
}
