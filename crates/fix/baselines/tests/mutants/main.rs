//! Each planted mutant fails the test that `list.rs` names, and the real code passes it. The tests of
//! knee-sync's mutants say more of the tools.

#[path = "../../../sync/tests/mutants/builds.rs"]
#[allow(dead_code, reason = "knee-sync builds its unit tests as well")]
mod builds;
mod list;
#[path = "../../../sync/tests/mutants/litmus.rs"]
mod litmus;

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Output;
use std::sync::{PoisonError, RwLock};
use std::time::Duration;
use std::{env, fs, thread};

use builds::{Program, interpret, said};
use list::{BELOW, MUTANTS, Notices};

/// The torture, which writes, needs two CPUs for itself: its threads have to meet.
static CPUS: RwLock<()> = RwLock::new(());

/// Whether a test has failed or does not end, and not anything else.
fn failed(output: &Output) -> bool {
    let never_ends = output.status.code() == Some(124);
    !output.status.success() && (never_ends || said(output).contains("test result: FAILED"))
}

/// The real code passes the tests of this name, and each mutant fails the one that `notices` returns.
fn hold_and_notice(
    tests: &Program,
    name: &str,
    notices: impl Fn(&Notices) -> Option<&'static str>,
) {
    let _with_others = CPUS.read().unwrap_or_else(PoisonError::into_inner);
    let real = tests.run(None, &[name]);
    assert!(real.status.success(), "{}", said(&real));
    for (mutant, by) in MUTANTS {
        if let Some(test) = notices(by) {
            let output = tests.run(Some(mutant), &["--exact", test]);
            assert!(failed(&output), "{mutant} survives {test}: {}", said(&output));
        }
    }
}

#[test]
fn models_hold_and_those_of_mutants_do_not() {
    hold_and_notice(&Program::models("loom"), "modelled::", |notices| match notices {
        Notices::Model(name) => Some(name),
        _ => None,
    });
}

#[test]
fn schedules_hold_and_those_of_mutants_do_not() {
    hold_and_notice(&Program::models("shuttle"), "scheduled::", |notices| match notices {
        Notices::Schedule(name) => Some(name),
        _ => None,
    });
}

#[test]
fn storms_notice_what_the_hosted_machine_forgets() {
    let arguments = ["test", "--no-run", "--test", "designs"];
    let _with_others = CPUS.read().unwrap_or_else(PoisonError::into_inner);
    let designs = Program::new(&["mutants"], "1", &arguments, 600);
    for (mutant, notices) in MUTANTS {
        let Notices::Design(test) = notices else { continue };
        let real = designs.run(None, &["--exact", test]);
        assert!(real.status.success(), "{}", said(&real));
        let output = designs.run(Some(mutant), &["--exact", test]);
        assert!(failed(&output), "{mutant} survives {test}: {}", said(&output));
    }
}

/// Most mutants are noticed within a second. Where the system has put both threads on one CPU it may
/// take forever, so the torture begins anew.
const ATTEMPTS: usize = 6;

#[test]
fn the_torture_notices_each_mutant_and_nothing_in_the_real_code() {
    if thread::available_parallelism().map_or(1, |cpus| cpus.get()) < 2 {
        eprintln!("skipped: on one CPU nothing happens at once");
        return;
    }
    let (real, mutants) = (Program::torture(&[]), Program::torture(&["mutants"]));
    let _alone = CPUS.write().unwrap_or_else(PoisonError::into_inner);
    let output = real.run(None, &["1"]);
    assert!(output.status.success(), "{}", said(&output));
    for (mutant, notices) in MUTANTS {
        let survives = |_| mutants.run(Some(mutant), &["10"]).status.success();
        if matches!(notices, Notices::Torture) && (0..ATTEMPTS).all(survives) {
            let is_noticeable = litmus::stores_are_late(Duration::from_secs(30));
            assert!(!is_noticeable, "{mutant} survives {ATTEMPTS} × 10 s");
            eprintln!("skipped {mutant}: no two CPUs run at once here");
        }
    }
}

#[test]
fn miri_notices_what_threads_of_a_process_do_not_order() {
    if env::var_os("KNEE_MIRI").is_none() {
        eprintln!("skipped: it takes minutes; KNEE_MIRI=1 runs it");
        return;
    }
    let mut hold = BTreeSet::new();
    for (mutant, notices) in MUTANTS {
        let Notices::Interpreter(test) = notices else { continue };
        if hold.insert(test) {
            let real = interpret(None, test);
            assert!(real.status.success(), "{}", said(&real));
        }
        let output = interpret(Some(mutant), test);
        let is_noticed = said(&output).contains("Undefined Behavior: Data race");
        assert!(is_noticed, "{mutant} survives {test}: {}", said(&output));
    }
}

#[test]
fn every_place_that_can_be_wrong_is_in_the_list() {
    let mut places = BTreeSet::new();
    collect(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut places);
    let listed = MUTANTS.iter().map(|(mutant, _)| *mutant);
    let ours: BTreeSet<_> = listed.filter(|mutant| !BELOW.contains(mutant)).collect();
    assert_eq!(places, ours.into_iter().map(str::to_owned).collect());
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
                places.extend(arguments.split('"').nth(1).map(str::to_owned));
            }
        }
    }
}
