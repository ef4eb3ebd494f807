//! Every order that matters can be made wrong, and then some test has to notice: else it would prove
//! nothing about the real code.
//!
//! The places are marked in the sources with `order!` and `is_mutant!`, and `list.rs` says who notices
//! which. loom tries every order of the protocols' accesses; it notices weak orders, which an x86 CPU
//! does not have. shuttle tries schedules of more threads, and notices what is wrong in any order; so do
//! unit tests. The torture runs on real CPUs, as no tool knows what membarrier(2) does. With
//! `KNEE_TORTURE=long` the torture takes minutes. Miri notices weak orders of what is made for the threads
//! of a process, which loom does not have; `crates/fix/sync/sanitize miri` asks for that.

mod builds;
mod list;
mod litmus;

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Output;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{PoisonError, RwLock};
use std::time::Duration;
use std::{env, fs, thread};

use builds::{Program, interpret, said};
use list::{MUTANTS, Notices};

/// The torture, which writes, needs two CPUs for itself: its threads have to meet.
static CPUS: RwLock<()> = RwLock::new(());

/// Whether a test has failed or does not end, and not anything else.
fn failed(output: &Output) -> bool {
    let never_ends = output.status.code() == Some(124);
    !output.status.success() && (never_ends || said(output).contains("test result: FAILED"))
}

/// The real code passes the tests of this name, and each mutant fails the one that `notices` says.
fn hold_and_notice(
    tests: &Program,
    name: &str,
    notices: impl Fn(&Notices) -> Option<&'static str> + Sync,
) {
    let real = tests.run(None, &[name]);
    assert!(real.status.success(), "{}", said(&real));
    let next = AtomicUsize::new(0);
    let notice = || {
        while let Some((mutant, by)) = MUTANTS.get(next.fetch_add(1, Relaxed)) {
            if let Some(test) = notices(by) {
                let output = tests.run(Some(mutant), &["--exact", test]);
                assert!(failed(&output), "{mutant} survives {test}: {}", said(&output));
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..cpus() {
            scope.spawn(notice);
        }
    });
}

fn cpus() -> usize {
    thread::available_parallelism().map_or(1, |cpus| cpus.get())
}

#[test]
fn models_hold_and_those_of_mutants_do_not() {
    let _with_others = CPUS.read().unwrap_or_else(PoisonError::into_inner);
    hold_and_notice(&Program::models("loom"), "modelled::", |notices| match notices {
        Notices::Model(name) => Some(name),
        _ => None,
    });
}

#[test]
fn schedules_hold_and_those_of_mutants_do_not() {
    let _with_others = CPUS.read().unwrap_or_else(PoisonError::into_inner);
    hold_and_notice(&Program::models("shuttle"), "scheduled::", |notices| match notices {
        Notices::Schedule(name) => Some(name),
        _ => None,
    });
}

#[test]
fn some_unit_tests_notice_what_is_wrong_in_any_order() {
    let _with_others = CPUS.read().unwrap_or_else(PoisonError::into_inner);
    let units = Program::units();
    for (mutant, notices) in MUTANTS {
        if let Notices::Unit(name) = notices {
            let real = units.run(None, &["--exact", name]);
            assert!(real.status.success(), "{}", said(&real));
            let output = units.run(Some(mutant), &["--exact", name]);
            assert!(failed(&output), "{mutant} survives {name}: {}", said(&output));
        }
    }
}

/// Whether to take the time for what takes long: `KNEE_TORTURE=long`.
fn is_long() -> bool {
    env::var_os("KNEE_TORTURE").is_some_and(|long| long == "long")
}

/// Seconds of the torture for what is real, and for a mutant in each of [`ATTEMPTS`].
fn patience() -> (&'static str, &'static str) {
    if is_long() { ("60", "60") } else { ("1", "10") }
}

/// Most mutants are noticed within a second. Where the system has put both threads on one CPU it may
/// take for ever, so the torture begins anew.
const ATTEMPTS: usize = 6;

#[test]
fn the_torture_notices_each_mutant_and_nothing_in_the_real_code() {
    if cpus() < 2 {
        eprintln!("skipped: on one CPU nothing happens at once");
        return;
    }
    let (real, mutants) = (Program::torture(&[]), Program::torture(&["mutants"]));
    let _alone = CPUS.write().unwrap_or_else(PoisonError::into_inner);
    let (short, long) = patience();
    for mode in ["epoch", "hazard", "invalidation", "percpu", "refcache", "rm"] {
        let output = real.run(None, &[mode, short]);
        assert!(output.status.success(), "{mode}: {}", said(&output));
    }
    let output = real.run(None, &["epoch", short, "symmetric"]);
    assert!(output.status.success(), "symmetric: {}", said(&output));
    for (mutant, notices) in MUTANTS {
        let Notices::Torture(arguments) = notices else { continue };
        let arguments: Vec<_> =
            [arguments[0], long].iter().chain(&arguments[1..]).copied().collect();
        let survives = |_| mutants.run(Some(mutant), &arguments).status.success();
        if (0..ATTEMPTS).all(survives) {
            let is_noticeable = litmus::stores_are_late(Duration::from_secs(30));
            assert!(!is_noticeable, "{mutant} survives {ATTEMPTS} × {long} s of {}", arguments[0]);
            eprintln!("skipped from {mutant} on: no two CPUs run at once here, so none is noticed");
            return;
        }
    }
}

#[test]
fn who_runs_alone_misses_no_stores() {
    // On several CPUs either may be true.
    if cpus() < 2 {
        assert!(!litmus::stores_are_late(Duration::from_millis(100)));
    }
}

#[test]
fn miri_notices_what_threads_of_a_process_do_not_order() {
    if env::var_os("KNEE_MIRI").is_none() {
        eprintln!("skipped: it takes minutes, and `crates/fix/sync/sanitize miri` asks for it");
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
                places.extend(arguments.split('"').nth(1).map(str::to_owned));
            }
        }
    }
}
