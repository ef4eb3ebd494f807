//! Explorations with planted faults, which show that the oracles detect faults.

use knee_commute::{Difference, Exploration, Limits, Literal, Verdict, models, sets};

use crate::oracle::{Fault, Objection, objections};
use crate::solver::Solver;
use crate::toys::TOYS;
use crate::z3;

/// A fault to plant in an exploration, and the kind of fault that z3 must report.
struct Plant {
    fault: Fault,
    /// Plants the fault in the situation with this number. Returns `false` if this situation cannot have the
    /// fault.
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

/// Drops the last answer from the condition of a situation. The opposite answer leads to another situation,
/// so the two situations now overlap.
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

/// Plants the fault in each situation, and asserts that z3 objects to this situation or, if the fault
/// concerns several situations, to the exploration as a whole. Returns the number of planted faults.
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

/// Plants a fault in all pairs of the small interfaces, and asks both oracles. Also plants the fault in the
/// POSIX calls `rename` and `stat`, whose exploration compares times.
fn assert_objects_everywhere(plant: &Plant) {
    let mut planted = 0;
    for toy in &TOYS {
        // Each interface has its own solver, because z3 4.8 does not support a second datatype of the
        // same name.
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
    println!("z3 objects to all faults: {planted} in small interfaces, {in_posix} in posix");
}

#[test]
fn z3_objects_if_commuting_operations_are_reported_to_differ() {
    assert_objects_everywhere(&COMMUTE_TO_DIFFER);
}

#[test]
fn z3_objects_if_differing_operations_are_reported_to_commute() {
    assert_objects_everywhere(&DIFFER_TO_COMMUTE);
}

#[test]
fn z3_objects_to_a_missing_situation() {
    assert_objects_everywhere(&DROPPED);
}

#[test]
fn z3_objects_to_a_condition_that_is_too_weak() {
    assert_objects_everywhere(&WEAKENED);
}

#[test]
fn z3_objects_to_a_condition_that_contradicts_itself() {
    assert_objects_everywhere(&CONTRADICTED);
}

#[test]
fn z3_objects_if_a_feasible_path_is_reported_as_infeasible() {
    let Some(mut solver) = z3() else { return };
    let mut exploration = explored("posix", ["fstat", "pipe"]);
    assert_eq!(objections(&mut solver, &exploration), []);
    exploration.infeasible[0].assumed.clear();
    let faults: Vec<Fault> =
        objections(&mut solver, &exploration).iter().map(|o| o.fault).collect();
    assert_eq!(faults, [Fault::GivenUp]);
}

#[test]
fn z3_objects_to_two_entries_of_a_map_with_equal_keys() {
    let Some(mut solver) = z3() else { return };
    let mut exploration = explored("map", ["swap", "swap"]);
    for situation in &mut exploration.situations {
        situation.condition.retain(|(literal, _)| !matches!(literal, Literal::Same(..)));
    }
    let objections = objections(&mut solver, &exploration);
    assert!(objections.iter().any(|o| o.fault == Fault::OnePlaceTwice), "{objections:?}");
}

#[test]
fn z3_objects_to_a_question_about_an_open_value() {
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
