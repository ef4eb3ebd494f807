//! How a test is skipped where a program that it needs is missing. Tests of other crates include
//! this file.

use std::fmt::Display;

/// A comma-separated list of what this machine must have, such as `qemu,mkfs,z3`.
const REQUIRE: &str = "KNEE_REQUIRE";

/// Prints why the test is skipped.
///
/// # Panics
/// If [`REQUIRE`] lists `name`.
#[track_caller]
pub(crate) fn skip(name: &str, reason: impl Display) {
    let required = std::env::var(REQUIRE).unwrap_or_default();
    let is_required = required.split(',').any(|one| one.trim() == name);
    assert!(!is_required, "{REQUIRE} lists {name}: {reason}");
    println!("skipped: {reason}");
}
