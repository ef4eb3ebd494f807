//! Explorations, as z3 sees them: an oracle that shares no code with the explorer's own decisions.
//!
//! Of every pair of operations of every model z3 is asked whether the situations are possible,
//! disjoint and all there are, and whether each verdict follows from its grounds. The small
//! interfaces are written in SMT-LIB once more, and there no grounds are believed either. Wrong
//! verdicts and conditions are planted to see that z3 objects.

mod entries;
mod formula;
mod oracle;
mod planted;
mod solver;
mod toys;

use std::ops::ControlFlow;
use std::time::Instant;

use knee_commute::{Exploration, Extent, Limits, Model, explore_pairs, in_order, models};
use knee_host::skip::skip;

use crate::oracle::Objection;
use crate::solver::Solver;
use crate::toys::{TOYS, sets};

/// `None`, and says why, where z3 is not installed.
fn z3() -> Option<Solver> {
    match Solver::start() {
        Ok(solver) => Some(solver),
        Err(error) => {
            skip("z3", format_args!("z3 cannot be run: {error}"));
            None
        }
    }
}

/// What z3 objects to, as a person reads it.
fn told(operations: &[&str], exploration: &Exploration, objections: &[Objection]) -> String {
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

/// Asks about many explorations at once, and demands that nothing is objected to.
fn assert_believed(
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
        (told(operations, exploration, &objections), solver.queries())
    };
    in_order(explorations.len(), work, |nr, (told, asked)| {
        queries += asked;
        situations += explorations[nr].1.situations.len();
        objections += &told;
        ControlFlow::Continue(())
    });
    let (sets, seconds) = (explorations.len(), start.elapsed().as_secs_f64());
    println!(
        "{what}: {queries} queries about {situations} situations of {sets} sets in {seconds:.1} s"
    );
    assert_eq!(objections, "");
}

/// Interfaces that z3 takes a minute for, and brute force does not.
const SLOW: [&str; 1] = ["directories"];
/// The variable that has them checked too.
const ALL: &str = "KNEE_Z3_ALL";

/// All pairs of a model, and how their operations are called.
fn explored(model: &dyn Model) -> Vec<(Vec<&str>, Exploration)> {
    let names = model.operations();
    let pairs = explore_pairs(model, &Limits::default(), |_, error| panic!("{error}"));
    let named = |pair: [usize; 2]| pair.map(|nr| names[nr].0).to_vec();
    pairs.into_iter().map(|(pair, exploration)| (named(pair), exploration)).collect()
}

#[test]
fn of_every_pair_z3_believes_the_situations_and_the_verdicts() {
    let Some(_) = z3() else { return };
    let all = std::env::var_os(ALL).is_some();
    for model in models() {
        if SLOW.contains(&model.name()) && !all {
            println!("{} is left out: it takes a minute; {ALL}=1 has it too", model.name());
            continue;
        }
        assert_believed(model.name(), &explored(&*model), |solver, _, exploration| {
            oracle::objections(solver, exploration)
        });
    }
}

/// z3 found this: that a chosen time was taken to be late enough for a third call too.
#[test]
fn a_choice_for_two_calls_decided_how_times_compare_that_a_third_one_sees() {
    let Some(_) = z3() else { return };
    let posix = &models()[0];
    let all = posix.operations();
    let names = ["rename", "stat", "pwrite"];
    let nr = |name: &str| all.iter().position(|(other, _)| *other == name).unwrap();
    let exploration = posix.explore(&names.map(nr), &Limits::default()).unwrap();
    assert_believed("three calls", &[(names.to_vec(), exploration)], |solver, _, exploration| {
        oracle::objections(solver, exploration)
    });
}

#[test]
fn two_and_three_calls_of_the_small_interfaces_are_explored_as_their_smt_says() {
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
        assert_believed(&format!("{} in SMT", toy.name), &explorations, |solver, names, found| {
            toy.objections(solver, names, found)
        });
    }
}
