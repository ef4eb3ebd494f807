//! Checks an exploration by means of its certificates.

use std::collections::BTreeMap;

use knee_commute::{Certificate, Exploration, InfeasiblePath, Literal, Situation, Verdict};

use crate::entries::{Entry, add_keys, entries, same_key};
use crate::formula::{Terms, all, and, claim, literal, not, or, symbol};
use crate::solver::{Answer, Solver};

/// A fault in an exploration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fault {
    /// A situation that is not satisfiable.
    NoSituation,
    /// A path that is reported as infeasible but is satisfiable.
    GivenUp,
    /// Two situations that are not disjoint.
    Overlap,
    /// The situations are not exhaustive.
    Gap,
    /// A verdict that does not follow from its certificate.
    Verdict,
    /// A question about an open value. The explorer should choose such a value instead of asking.
    AskedOpen,
    /// Two entries of a map with equal keys.
    OnePlaceTwice,
    /// An assumption that does not follow from the invariant of the state.
    Unfounded,
}

/// What is wrong with an exploration, and in which situation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Objection {
    pub(crate) fault: Fault,
    /// The index of the situation; `None` if the objection is not about a single situation.
    pub(crate) situation: Option<usize>,
    /// The unexpected answer of z3.
    pub(crate) answer: Answer,
}

/// Collects objections.
#[derive(Default)]
pub(crate) struct Objections(pub(crate) Vec<Objection>);

impl Objections {
    pub(crate) fn expect(
        &mut self,
        expected: Answer,
        answer: Answer,
        fault: Fault,
        situation: Option<usize>,
    ) {
        if answer != expected {
            self.0.push(Objection { fault, situation, answer });
        }
    }
}

/// Returns the objections of z3 to an exploration.
pub(crate) fn objections(solver: &mut Solver, exploration: &Exploration) -> Vec<Objection> {
    let mut objections = Objections::default();
    solver.meanwhile(|solver| {
        solver.command(&Terms::of(exploration).declared());
        partition(solver, exploration, &mut objections);
        for (nr, situation) in exploration.situations.iter().enumerate() {
            solver.meanwhile(|solver| check(solver, nr, situation, &mut objections));
        }
        for InfeasiblePath { condition, assumed } in &exploration.infeasible {
            let answer = solver.check_with(&and([all(condition), all(assumed)]));
            objections.expect(Answer::Unsatisfiable, answer, Fault::GivenUp, None);
        }
    });
    objections.0
}

/// Checks that the conditions of all situations and infeasible paths are disjoint and exhaustive.
///
/// A single query, instead of a query for each pair, checks that no two conditions hold together. The
/// query asserts that some condition holds and that an earlier condition holds, too. `any n` means
/// that one of the first n conditions holds.
pub(crate) fn partition(
    solver: &mut Solver,
    exploration: &Exploration,
    objections: &mut Objections,
) {
    let situations = exploration.situations.iter().map(|situation| &situation.condition);
    let infeasible = exploration.infeasible.iter().map(|infeasible| &infeasible.condition);
    let conditions: Vec<_> = situations.chain(infeasible).map(|condition| all(condition)).collect();
    let none = and(conditions.iter().map(|condition| not(condition)));
    objections.expect(Answer::Unsatisfiable, solver.check_with(&none), Fault::Gap, None);
    solver.meanwhile(|solver| {
        let any = |n: usize| symbol(&format!("any {n}"));
        solver.command(&format!("(define-fun {} () Bool false)", any(0)));
        let mut twice = Vec::new();
        for (n, condition) in conditions.iter().enumerate() {
            solver.command(&format!("(declare-const {} Bool)", any(n + 1)));
            solver.assert(&format!("(= {} (or {} {condition}))", any(n + 1), any(n)));
            twice.push(and([any(n), condition.clone()]));
        }
        solver.assert(&or(twice));
        objections.expect(Answer::Unsatisfiable, solver.check(), Fault::Overlap, None);
    });
}

fn check(solver: &mut Solver, nr: usize, situation: &Situation, objections: &mut Objections) {
    let Situation { condition, verdict, certificate } = situation;
    let Certificate { assumed, fresh, agreed, open, claims } = certificate;
    let mut terms = Terms::default();
    terms.add_literals(condition);
    terms.add_literals(assumed);
    terms.names.extend(fresh.iter().cloned());
    claims.iter().for_each(|claim| terms.add_claim(claim));
    add_keys(&mut terms);
    let is_open = |literal: &Literal| match literal {
        Literal::AtMost(a, _, b) => open.contains(a) || open.contains(b),
        Literal::Same(..) | Literal::Is(_) => false,
    };

    solver.assert(&all(condition));
    solver.assert(&apart(fresh, &terms));
    let (of_open, of_others): (Vec<_>, Vec<_>) =
        assumed.iter().cloned().partition(|(literal, _)| is_open(literal));
    solver.assert(&all(&of_others));

    let any_choice = solver.check_with(&all(&of_open));
    objections.expect(Answer::Satisfiable, any_choice, Fault::NoSituation, Some(nr));
    if condition.iter().any(|(literal, _)| is_open(literal)) {
        let fault = Fault::AskedOpen;
        objections.0.push(Objection { fault, situation: Some(nr), answer: any_choice });
    }
    let agree = and(of_open.iter().map(literal).chain(claims.iter().map(claim)));
    let chosen = and(agreed.iter().map(|(a, b)| format!("(= {} {})", symbol(a), symbol(b))));
    if *verdict == Verdict::Commute {
        let possible = solver.check_with(&and([all(&of_open), chosen.clone()]));
        objections.expect(Answer::Satisfiable, possible, Fault::NoSituation, Some(nr));
    }
    let answer = match verdict {
        // Assert the chosen equalities of fresh names.
        Verdict::Commute if !open.is_empty() => solver.meanwhile(|solver| {
            solver.assert(&chosen);
            solver.assert(&not(&exists(open, &agree)));
            solver.check_quantified()
        }),
        Verdict::Commute => solver.check_with(&and([chosen, not(&agree)])),
        Verdict::Differ(_) => solver.check_with(&agree),
    };
    objections.expect(Answer::Unsatisfiable, answer, Fault::Verdict, Some(nr));
    let one_place = one_place(&terms, fresh);
    if !one_place.is_empty() {
        let answer = solver.check_with(&and([all(&of_open), or(one_place)]));
        objections.expect(Answer::Unsatisfiable, answer, Fault::OnePlaceTwice, Some(nr));
    }
}

/// A formula which states that `formula` is true for some values of the integers with the labels `open`.
fn exists(open: &[String], formula: &str) -> String {
    let open: Vec<String> = open.iter().map(|label| format!("({} Int)", symbol(label))).collect();
    format!("(exists ({}) {formula})", open.join(" "))
}

/// A formula which states that each fresh name differs from every name that is not fresh. The
/// certificate's assumptions say which fresh names differ from each other.
fn apart(fresh: &[String], terms: &Terms) -> String {
    let others = |_: &String| {
        let others = terms.names.iter().filter(|other| !fresh.contains(other));
        others.map(|other| other.to_owned()).collect::<Vec<_>>()
    };
    let differ = |a: &str, b: &str| format!("(distinct {} {})", symbol(a), symbol(b));
    and(fresh.iter().flat_map(|a| others(a).into_iter().map(move |b| differ(a, &b))))
}

/// For every two entries of one map in the labels of `terms`, a formula which states that their keys are
/// equal. Pairs of fresh keys are left out, because the initial state has no entries with fresh keys.
fn one_place(terms: &Terms, fresh: &[String]) -> Vec<String> {
    let labels = terms.names.iter().chain(&terms.ints).chain(&terms.flags);
    let mut maps: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for Entry { map, key } in labels.flat_map(|label| entries(label)) {
        let keys = maps.entry(map).or_default();
        if !keys.contains(&key) {
            keys.push(key);
        }
    }
    let mut same = Vec::new();
    for keys in maps.values() {
        for (nr, a) in keys.iter().enumerate() {
            let both_new = |b: &&String| fresh.contains(a) && fresh.contains(*b);
            let with = |b: &String| same_key(a, b, terms);
            same.extend(keys[..nr].iter().filter(|b| !both_new(b)).map(with));
        }
    }
    same
}
