//! Skips a test if this machine does not have a tool that the test needs. For tests
//! only; all crates of the workspace share it.

use std::fmt::Display;
use std::fs;
use std::process::Command;
use std::sync::{Mutex, PoisonError};

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

/// Whether Rust can compile for `target`. Installs it with rustup if it is missing; if that fails, skips the test.
///
/// # Panics
/// The target cannot be installed, and the environment's `KNEE_REQUIRE` lists `kernel`.
#[track_caller]
pub fn has_rust_target(target: &str) -> bool {
    /// Tests run in several threads, and rustup may not run twice at once.
    static RUSTUP: Mutex<()> = Mutex::new(());
    let _alone = RUSTUP.lock().unwrap_or_else(PoisonError::into_inner);
    let is_there = || {
        let print = ["--print", "target-libdir", "--target", target];
        let Ok(output) = Command::new("rustc").args(print).output() else { return false };
        let directory = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        fs::read_dir(directory).is_ok_and(|mut files| files.next().is_some())
    };
    if is_there() {
        return true;
    }
    let add = Command::new("rustup").args(["target", "add", target]).output();
    if is_there() {
        return true;
    }
    let reason = match add {
        Ok(output) => String::from_utf8_lossy(&output.stderr).trim().to_owned(),
        Err(error) => format!("rustup cannot be run: {error}"),
    };
    skip(
        "kernel",
        format_args!(
            "Rust's target {target} is missing, and `rustup target add {target}` failed: {reason}"
        ),
    );
    false
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
