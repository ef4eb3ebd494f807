//! When operations commute, in as few words as it takes.
//!
//! The situations of an exploration are many, and each says more than matters. A formula may be
//! left out of one as long as what remains holds in no situation with another verdict; of what is
//! left, as few as cover all situations are kept. Terms are compared by what they are called, so
//! two that could not hold together for a reason that lies deeper are taken for possible: a
//! condition may be longer than it had to be, and never wrong.

use std::collections::HashMap;

use crate::explore::{Difference, Exploration, Situation, Verdict};
use crate::facts::{Facts, Int, Literal, Name, Question};

/// Formulas that hold together.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Condition {
    /// Formulas and whether they hold or their opposites; none: always.
    pub literals: Vec<(Literal, bool)>,
}

/// When operations commute, and when not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conditions {
    /// They commute where any of these holds.
    pub commute: Vec<Condition>,
    /// They do not where any of these holds, and what tells the orders apart there.
    pub differ: Vec<(Condition, Difference)>,
}

impl Condition {
    /// `a.key ≠ b.key and table[a.key]`, or `always`.
    pub fn show(&self) -> String {
        let formulas: Vec<String> =
            self.literals.iter().map(|(literal, answer)| literal.show(*answer)).collect();
        if formulas.is_empty() { "always".to_owned() } else { formulas.join(" and ") }
    }

    fn of(situation: &Situation) -> Self {
        Self { literals: situation.condition.clone() }
    }

    /// Whether both can hold, by what their terms are called.
    fn possible_with(&self, other: &Self) -> bool {
        let mut known = Known::default();
        self.literals.iter().chain(&other.literals).all(|(literal, answer)| {
            let question = known.question(literal);
            known.facts.assume(&question, *answer)
        })
    }

    /// Whether `other` holds wherever this does.
    fn implies(&self, other: &Self) -> bool {
        let mut known = Known::default();
        for (literal, answer) in &self.literals {
            let question = known.question(literal);
            known.facts.assume(&question, *answer);
        }
        other.literals.iter().all(|(literal, answer)| {
            let question = known.question(literal);
            known.facts.answer(&question) == Some(*answer)
        })
    }

    /// Without what it takes to be apart from all of `others`.
    fn reduced(mut self, others: &[Self]) -> Self {
        // What was asked last follows from the rest most of the time.
        for nr in (0..self.literals.len()).rev() {
            let literal = self.literals.remove(nr);
            if others.iter().any(|other| self.possible_with(other)) {
                self.literals.insert(nr, literal);
            }
        }
        self
    }
}

/// What a term is called tells its sort.
const SORT: &str = "named";

/// Facts about terms that are known by what they are called.
#[derive(Default)]
struct Known {
    facts: Facts,
    names: HashMap<String, Name>,
    ints: HashMap<String, Int>,
    flags: HashMap<String, crate::facts::Flag>,
}

impl Known {
    fn question(&mut self, literal: &Literal) -> Question {
        let facts = &mut self.facts;
        match literal {
            Literal::Same(_, a, b) => {
                let [a, b] = [a, b].map(|label| {
                    let new = || facts.name(SORT, label.as_str());
                    *self.names.entry(label.clone()).or_insert_with(new)
                });
                Question::Same(a, b)
            }
            Literal::AtMost(a, plus, b) => {
                let [a, b] = [a, b].map(|label| match label.as_str() {
                    "" => Int::from(0),
                    label => {
                        let new = || facts.int(label, None, None);
                        *self.ints.entry(label.to_owned()).or_insert_with(new)
                    }
                });
                Question::AtMost(a + *plus, b)
            }
            Literal::Is(label) => {
                let new = || facts.flag(label.as_str());
                Question::Is(*self.flags.entry(label.clone()).or_insert_with(new))
            }
        }
    }
}

/// The conditions of an exploration.
pub fn conditions(exploration: &Exploration) -> Conditions {
    let (mut commute, mut differ) = (Vec::new(), Vec::new());
    for situation in &exploration.situations {
        let condition = Condition::of(situation);
        match &situation.verdict {
            Verdict::Commute => commute.push(condition),
            Verdict::Differ(difference) => differ.push((condition, difference.clone())),
        }
    }
    let apart: Vec<Condition> = differ.iter().map(|(condition, _)| condition.clone()).collect();
    let shortest = cover(&commute, &apart);
    let differ = cover(&apart, &commute)
        .into_iter()
        .map(|condition| {
            let example = differ.iter().find(|(whole, _)| whole.implies(&condition));
            let difference = example.expect("it was made of one").1.clone();
            (condition, difference)
        })
        .collect();
    Conditions { commute: shortest, differ }
}

/// As few and as short conditions as cover `situations` and touch none of `others`.
fn cover(situations: &[Condition], others: &[Condition]) -> Vec<Condition> {
    let mut candidates: Vec<Condition> =
        situations.iter().map(|situation| situation.clone().reduced(others)).collect();
    candidates.sort_by(|a, b| (a.literals.len(), a).cmp(&(b.literals.len(), b)));
    candidates.dedup();
    let mut left: Vec<&Condition> = situations.iter().collect();
    let mut chosen = Vec::new();
    while !left.is_empty() {
        let covered = |candidate: &Condition| {
            left.iter().filter(|situation| situation.implies(candidate)).count()
        };
        // The first of those that cover most.
        let (nr, _) = candidates
            .iter()
            .map(covered)
            .enumerate()
            .max_by_key(|(nr, n)| (*n, usize::MAX - nr))
            .expect("each situation has its candidate");
        let best = candidates.remove(nr);
        left.retain(|situation| !situation.implies(&best));
        chosen.push(best);
    }
    chosen
}
