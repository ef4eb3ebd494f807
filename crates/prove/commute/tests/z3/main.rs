//! z3 as an oracle for explorations. The oracle does not use the code by which the explorer decides.
//!
//! For every pair of operations of every model, except those in [`SLOW`], z3 checks that the situations
//! are satisfiable, disjoint and exhaustive, and that each verdict follows from its certificate. The
//! small interfaces are also written in SMT-LIB, so that z3 checks them without relying on the
//! certificates. Other tests plant wrong verdicts and conditions, and show that z3 objects.

mod entries;
mod formula;
mod oracle;
mod planted;
mod solver;
mod toys;

use std::ops::ControlFlow;
use std::time::Instant;

use knee_commute::{Exploration, Extent, Limits, Model, explore_pairs, in_order, models, sets};
use knee_host::skip::skip;

use crate::oracle::Objection;
use crate::solver::Solver;
use crate::toys::TOYS;

/// Prints a message and returns `None` if z3 is not installed.
fn z3() -> Option<Solver> {
    match Solver::start() {
        Ok(solver) => Some(solver),
        Err(error) => {
            skip("z3", format_args!("z3 cannot be run: {error}"));
            None
        }
    }
}

/// The objections as text.
fn shown(operations: &[&str], exploration: &Exploration, objections: &[Objection]) -> String {
    let mut text = String::new();
    for objection in objections {
        let (operations, answer) = (operations.join(" and "), objection.answer);
        text += &format!("{operations}: {:?}, z3 says {answer:?}\n", objection.fault);
        if let Some(nr) = objection.situation {
            text += &format!("{:#?}\n", exploration.situations[nr]);
        }
    }
    text
}

/// Checks many explorations in parallel and asserts that there is no objection.
fn assert_confirmed(
    what: &str,
    explorations: &[(Vec<&str>, Exploration)],
    ask: impl Fn(&mut Solver, &[&str], &Exploration) -> Vec<Objection> + Sync,
) {
    let start = Instant::now();
    let (mut queries, mut situations, mut objections) = (0, 0, String::new());
    let work = |nr: usize| {
        let (operations, exploration): &(Vec<&str>, Exploration) = &explorations[nr];
        assert_eq!(exploration.extent, Extent::default(), "{operations:?}");
        let mut solver = Solver::start().expect("it could be started before");
        let objections = ask(&mut solver, operations, exploration);
        (shown(operations, exploration, &objections), solver.queries())
    };
    in_order(explorations.len(), work, |nr, (shown, asked)| {
        queries += asked;
        situations += explorations[nr].1.situations.len();
        objections += &shown;
        ControlFlow::Continue(())
    });
    let (sets, seconds) = (explorations.len(), start.elapsed().as_secs_f64());
    println!(
        "{what}: {queries} queries about {situations} situations of {sets} sets in {seconds:.1} s"
    );
    assert_eq!(objections, "");
}

/// Interfaces that are left out by default, because they take z3 a minute. The brute-force tests check
/// these interfaces faster.
const SLOW: [&str; 1] = ["directories"];
/// If this environment variable is set, z3 checks the slow interfaces, too.
const ALL: &str = "KNEE_Z3_ALL";

/// Explores all pairs of a model. Returns each exploration with the names of the pair's operations.
fn explored(model: &dyn Model) -> Vec<(Vec<&str>, Exploration)> {
    let names = model.operations();
    let pairs = explore_pairs(model, &Limits::default(), |_, explored| explored.unwrap());
    let named = |pair: [usize; 2]| pair.map(|nr| names[nr].0).to_vec();
    pairs.into_iter().map(|(pair, exploration)| (named(pair), exploration)).collect()
}

#[test]
fn z3_confirms_the_situations_and_verdicts_of_every_pair() {
    let Some(_) = z3() else { return };
    let all = std::env::var_os(ALL).is_some();
    for model in models() {
        if SLOW.contains(&model.name()) && !all {
            println!("{} is left out: it takes a minute; {ALL}=1 includes it", model.name());
            continue;
        }
        assert_confirmed(model.name(), &explored(&*model), |solver, _, exploration| {
            oracle::objections(solver, exploration)
        });
    }
}

/// An error that z3 found in an earlier version: the explorer chose a time for two calls, and assumed that
/// this time was late enough for a third call, too.
#[test]
fn a_choice_for_two_calls_does_not_decide_how_times_of_a_third_call_compare() {
    let Some(_) = z3() else { return };
    let posix = &models()[0];
    let all = posix.operations();
    let names = ["rename", "stat", "pwrite"];
    let nr = |name: &str| all.iter().position(|(other, _)| *other == name).unwrap();
    let exploration = posix.explore(&names.map(nr), &Limits::default()).unwrap();
    assert_confirmed("three calls", &[(names.to_vec(), exploration)], |solver, _, exploration| {
        oracle::objections(solver, exploration)
    });
}

/// Sets of three calls in up to three processes. z3 takes a few seconds for each.
const OF_THREE: [[&str; 3]; 4] = [
    ["munmap", "munmap", "munmap"],
    ["munmap", "memread", "memwrite"],
    ["unlink", "close", "close"],
    ["rename", "stat", "close"],
];

#[test]
fn z3_confirms_the_situations_and_verdicts_of_sets_of_three_posix_calls() {
    let Some(_) = z3() else { return };
    let posix = &models()[0];
    let all = posix.operations();
    let explored = |names: [&'static str; 3]| {
        let set = names.map(|name| all.iter().position(|(other, _)| *other == name).unwrap());
        (names.to_vec(), posix.explore(&set, &Limits::default()).unwrap())
    };
    let explorations = OF_THREE.map(explored);
    let has_all = explorations.iter().any(|(_, exploration)| {
        let conditions = exploration.situations.iter().map(|situation| &situation.condition);
        conditions
            .flatten()
            .any(|(literal, _)| literal.show(true).contains("another process than b"))
    });
    assert!(has_all, "some calls are in three processes");
    assert_confirmed("sets of three", &explorations, |solver, _, exploration| {
        oracle::objections(solver, exploration)
    });
}

#[test]
fn two_and_three_calls_of_the_small_interfaces_agree_with_their_smt_models() {
    let Some(_) = z3() else { return };
    for toy in &TOYS {
        let model = toy.model();
        let names = model.operations();
        let explored = |set: Vec<usize>| {
            let exploration = model.explore(&set, &Limits::default());
            let names = set.iter().map(|&nr| names[nr].0).collect::<Vec<_>>();
            (names, exploration.unwrap_or_else(|error| panic!("{error}")))
        };
        let sets: Vec<_> = [2, 3].into_iter().flat_map(|calls| sets(names.len(), calls)).collect();
        let explorations: Vec<_> = sets.into_iter().map(explored).collect();
        assert_confirmed(&format!("{} in SMT", toy.name), &explorations, |solver, names, found| {
            toy.objections(solver, names, found)
        });
    }
}
