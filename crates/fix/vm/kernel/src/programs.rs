//! The programs in the folder `user`, which the build script compiles.

use crate::console::println;
use crate::{arch, process};

macro_rules! program {
    ($name:literal) => {
        ($name, include_bytes!(concat!(env!("OUT_DIR"), "/", $name)))
    };
}

const PROGRAMS: &[(&str, &[u8])] =
    &[program!("calls"), program!("devices"), program!("processes"), program!("threads")];

/// The program that `knee commute cost` measures.
pub(crate) const TASKS: &[u8] = program!("tasks").1;

/// Runs the programs in `names`, a comma-separated list, or all programs if the list is empty.
///
/// # Panics
/// If a program ends with a status other than 0.
pub(crate) fn run(names: &str) {
    let chosen = |name: &str| names.is_empty() || names.split(',').any(|chosen| chosen == name);
    for (name, program) in PROGRAMS.iter().filter(|(name, _)| chosen(name)) {
        let start = arch::clock();
        let status = process::run(program);
        assert!(status == 0, "program {name} ended with status {status}");
        println!("program {name}: {} ms", (arch::clock() - start) / 1_000_000);
    }
}

/// Whether a program has this name.
pub(crate) fn exists(name: &str) -> bool {
    PROGRAMS.iter().any(|(program, _)| *program == name)
}
