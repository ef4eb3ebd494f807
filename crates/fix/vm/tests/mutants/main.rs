//! The crate can be made wrong in each place that matters, and then some test has to notice: else it
//! would prove nothing about the real code.
//!
//! The places are marked in the sources with `is_mutant!` and `order!`, and `list.rs` says who notices
//! which. The lock protocol is loom's business, which tries every order of its accesses; what is to be
//! flushed, by when and for whom is a matter of single steps; and the hosted machine has its storms.

mod builds;
mod list;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Output;

use builds::{Programs, said};
use list::{MUTANTS, Notices};

/// Whether a test has failed or does not end, and not anything else. loom may panic once more while it
/// gives up.
fn failed(output: &Output) -> bool {
    let said = said(output);
    let never_ends = output.status.code() == Some(124);
    let has_failed = said.contains("0 passed; 1 failed") || said.contains("panicked at");
    !output.status.success() && (never_ends || has_failed)
}

/// Runs a test as this mutant, and as it is if it did not pass before.
fn check<'t>(
    programs: &Programs,
    program: &str,
    mutant: &str,
    test: &'t str,
    passed: &mut BTreeSet<&'t str>,
) {
    if passed.insert(test) {
        let real = programs.run(program, None, test);
        let ran = said(&real).contains("1 passed; 0 failed");
        assert!(real.status.success() && ran, "{test}: {}", said(&real));
    }
    let output = programs.run(program, Some(mutant), test);
    assert!(failed(&output), "{mutant} survives {test}: {}", said(&output));
}

#[test]
fn tests_notice_each_mutant_and_nothing_in_the_real_code() {
    let programs = Programs::tests(&["stepped", "classic"]);
    let mut passed = BTreeSet::new();
    for (mutant, notices) in MUTANTS {
        match notices {
            Notices::Stepped(test) => check(&programs, "stepped", mutant, test, &mut passed),
            Notices::Hosted(test) => check(&programs, "classic", mutant, test, &mut passed),
            Notices::Model(_) | Notices::HostedModel(_) => (),
        }
    }
}

#[test]
fn models_hold_and_those_of_mutants_do_not() {
    let models = Programs::models();
    let real = models.run_all("knee_vm", "modelled");
    assert!(real.status.success(), "{}", said(&real));
    for (mutant, notices) in MUTANTS {
        let test = match notices {
            Notices::Model(name) => format!("modelled::{name}"),
            Notices::HostedModel(name) => format!("hosted::modelled::{name}"),
            Notices::Stepped(_) | Notices::Hosted(_) => continue,
        };
        let output = models.run("knee_vm", Some(mutant), &test);
        assert!(failed(&output), "{mutant} survives {test}: {}", said(&output));
    }
}

#[test]
fn every_place_that_can_be_wrong_is_in_the_list() {
    let mut places = BTreeSet::new();
    collect(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut places);
    let listed: BTreeSet<_> = MUTANTS.iter().map(|(mutant, _)| (*mutant).to_owned()).collect();
    assert_eq!(places, listed);
}

/// Adds the names of mutants in the files of a directory.
fn collect(directory: &Path, places: &mut BTreeSet<String>) {
    for entry in fs::read_dir(directory).expect("the sources are there") {
        let path = entry.expect("they can be listed").path();
        if path.is_dir() {
            collect(&path, places);
            continue;
        }
        let source = fs::read_to_string(path).expect("they are text");
        for mark in ["is_mutant!(", "order!("] {
            for after in source.split(mark).skip(1) {
                let arguments = after.split(')').next().unwrap_or_default();
                // A macro's own parameters have no quotes.
                places.extend(arguments.split('"').skip(1).step_by(2).map(str::to_owned));
            }
        }
    }
}
