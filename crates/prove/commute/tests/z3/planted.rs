//! Explorations with something wrong in them: an oracle that objects to nothing proves nothing.

use knee_commute::{Difference, Exploration, Limits, Literal, Verdict, models};

use crate::oracle::{Fault, Objection, objections};
use crate::solver::Solver;
use crate::toys::{TOYS, sets};
use crate::z3;

/// What can be done to a situation, and what is to be objected.
struct Plant {
    fault: Fault,
    /// `false` if it cannot be done to this one.
    plant: fn(&mut Exploration, usize) -> bool,
}

const COMMUTE_TO_DIFFER: Plant = Plant {
    fault: Fault::Verdict,
    plant: |exploration, nr| {
        let verdict = &mut exploration.situations[nr].verdict;
        let commutes = *verdict == Verdict::Commute;
        let orders = ["a, b", "b, a"].map(str::to_owned);
        *verdict = Verdict::Differ(Difference::State { seen: Default::default(), orders });
        commutes
    },
};

const DIFFER_TO_COMMUTE: Plant = Plant {
    fault: Fault::Verdict,
    plant: |exploration, nr| {
        let verdict = &mut exploration.situations[nr].verdict;
        std::mem::replace(verdict, Verdict::Commute) != Verdict::Commute
    },
};

const DROPPED: Plant = Plant {
    fault: Fault::Gap,
    plant: |exploration, nr| {
        exploration.situations.remove(nr);
        true
    },
};

/// The opposite of what was asked last was possible, and led elsewhere.
const WEAKENED: Plant = Plant {
    fault: Fault::Overlap,
    plant: |exploration, nr| exploration.situations[nr].condition.pop().is_some(),
};

const CONTRADICTED: Plant = Plant {
    fault: Fault::NoSituation,
    plant: |exploration, nr| {
        let condition = &mut exploration.situations[nr].condition;
        let one_is_zero = (Literal::AtMost(String::new(), 1, String::new()), true);
        let opposite = condition.first().map(|(literal, holds)| (literal.clone(), !holds));
        condition.push(opposite.unwrap_or(one_is_zero));
        true
    },
};

/// Plants into each situation, and demands the objection, about the situation or about all.
fn assert_objects(
    solver: &mut Solver,
    exploration: &Exploration,
    plant: &Plant,
    ask: impl Fn(&mut Solver, &Exploration) -> Vec<Objection>,
) -> usize {
    let mut planted = 0;
    for nr in 0..exploration.situations.len() {
        let mut wrong = exploration.clone();
        if !(plant.plant)(&mut wrong, nr) {
            continue;
        }
        planted += 1;
        let situation = match plant.fault {
            Fault::Gap | Fault::Overlap => None,
            _ => Some(nr),
        };
        let objections = ask(solver, &wrong);
        let objects = objections
            .iter()
            .any(|objection| (objection.fault, objection.situation) == (plant.fault, situation));
        assert!(objects, "{:?} in {nr} of {wrong:#?}: {objections:?}", plant.fault);
    }
    planted
}

fn explored(model: &str, operations: [&str; 2]) -> Exploration {
    let model = models().into_iter().find(|other| other.name() == model).expect("it is a model");
    let names = model.operations();
    let nr = |name: &str| names.iter().position(|(other, _)| *other == name).expect("an operation");
    model.explore(&operations.map(nr), &Limits::default()).expect("it can be explored")
}

/// Into all pairs of the small interfaces, for both oracles, and one of POSIX that is about times.
fn assert_objects_everywhere(plant: &Plant) {
    let mut planted = 0;
    for toy in &TOYS {
        // A solver each: z3 4.8 is confused by a second datatype of one name.
        let Some(mut solver) = z3() else { return };
        let model = toy.model();
        let names = model.operations();
        for set in sets(names.len(), 2) {
            let exploration = model.explore(&set, &Limits::default()).expect("it can be explored");
            let names: Vec<&str> = set.iter().map(|&nr| names[nr].0).collect();
            planted += assert_objects(&mut solver, &exploration, plant, |solver, exploration| {
                toy.objections(solver, &names, exploration)
            });
            planted += assert_objects(&mut solver, &exploration, plant, objections);
        }
    }
    let Some(mut solver) = z3() else { return };
    let posix = explored("posix", ["rename", "stat"]);
    let in_posix = assert_objects(&mut solver, &posix, plant, objections);
    assert!(planted > 0 && in_posix > 0, "nothing was planted");
    println!("{planted} planted in small interfaces, {in_posix} in posix, all objected to");
}

#[test]
fn z3_objects_where_operations_commute_and_are_said_to_differ() {
    assert_objects_everywhere(&COMMUTE_TO_DIFFER);
}

#[test]
fn z3_objects_where_operations_differ_and_are_said_to_commute() {
    assert_objects_everywhere(&DIFFER_TO_COMMUTE);
}

#[test]
fn z3_objects_to_a_situation_that_is_missing() {
    assert_objects_everywhere(&DROPPED);
}

#[test]
fn z3_objects_to_a_condition_that_says_too_little() {
    assert_objects_everywhere(&WEAKENED);
}

#[test]
fn z3_objects_to_a_condition_that_contradicts_itself() {
    assert_objects_everywhere(&CONTRADICTED);
}

#[test]
fn z3_objects_to_a_path_that_is_given_up_without_a_reason() {
    let Some(mut solver) = z3() else { return };
    let mut exploration = explored("posix", ["fstat", "pipe"]);
    assert_eq!(objections(&mut solver, &exploration), []);
    exploration.infeasible[0].assumed.clear();
    let faults: Vec<Fault> =
        objections(&mut solver, &exploration).iter().map(|o| o.fault).collect();
    assert_eq!(faults, [Fault::GivenUp]);
}

#[test]
fn z3_objects_to_one_place_of_a_map_that_is_taken_for_two() {
    let Some(mut solver) = z3() else { return };
    let mut exploration = explored("map", ["swap", "swap"]);
    for situation in &mut exploration.situations {
        situation.condition.retain(|(literal, _)| !matches!(literal, Literal::Same(..)));
    }
    let objections = objections(&mut solver, &exploration);
    assert!(objections.iter().any(|o| o.fault == Fault::OnePlaceTwice), "{objections:?}");
}

#[test]
fn z3_objects_to_a_question_about_what_is_open() {
    let Some(mut solver) = z3() else { return };
    let mut exploration = explored("posix", ["stat", "pwrite"]);
    let times = |open: &[String]| open.iter().any(|label| label == "b.time");
    let mut situations = exploration.situations.iter_mut();
    let situation =
        situations.find(|situation| times(&situation.certificate.open)).expect("it writes");
    let literal = Literal::AtMost("b.time".to_owned(), 0, String::new());
    situation.condition.push((literal, true));
    let objections = objections(&mut solver, &exploration);
    assert!(objections.iter().any(|o| o.fault == Fault::AskedOpen), "{objections:?}");
}
