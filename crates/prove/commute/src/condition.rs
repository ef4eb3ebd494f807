//! Short conditions under which operations commute.
//!
//! An exploration has many situations, and their conditions contain literals that do not matter. A literal is
//! dropped from a condition if no situation with the opposite verdict satisfies the remaining literals. Then
//! a greedy search selects enough of the shortened conditions to cover all situations. Terms with different
//! labels count as unrelated. So if two conditions exclude each other only because such terms are related,
//! the conditions seem compatible. In this case a literal that could be dropped is kept: the condition is
//! longer than necessary, but never wrong.

use std::collections::HashMap;

use crate::exploration::{Difference, Exploration, Situation, Verdict};
use crate::facts::{Int, Question, WORD};
use crate::literal::{Bound, Literal, show_all};
use crate::parallel;
use crate::terms::Terms;

/// A conjunction of literals. An empty conjunction always holds.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Condition {
    literals: Vec<(Literal, bool)>,
    /// Integers that must differ. Despite the type, an element is not a bound: it means `x` ≠ `y` + `most`.
    apart: Vec<Bound>,
}

/// When operations commute, and why they do not commute in the other situations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conditions {
    /// The operations commute if and only if one of these cases holds. The case that covers the most
    /// situations comes first.
    pub commute: Vec<Case>,
    /// The differences between orders in all other situations, the most frequent first.
    pub differ: Vec<Reason>,
}

/// A condition under which operations commute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Case {
    /// The formulas that must all hold. If there are none, the condition always holds.
    pub formulas: Vec<String>,
    /// The number of situations in which all formulas hold.
    pub situations: usize,
    /// The index of an example: a situation covered by as few other cases as possible. If there are several
    /// such situations, the example is the one with the shortest condition.
    pub example: usize,
}

/// A reason why operations do not commute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reason {
    /// The difference between two orders.
    pub difference: Difference,
    /// The number of situations with this difference.
    pub situations: usize,
    /// The index of an example: the situation with the shortest condition.
    pub example: usize,
    /// The shortened condition of the example: the orders differ whenever all of these formulas hold. If
    /// there are no formulas, the orders always differ.
    pub formulas: Vec<String>,
}

impl Condition {
    fn of(situation: &Situation) -> Self {
        Self { literals: situation.condition.clone(), apart: Vec::new() }
    }

    /// The condition of the situation, and all assumptions of the model.
    fn whole(situation: &Situation) -> Self {
        let assumed = &situation.certificate.assumed;
        Self { literals: [&situation.condition[..], assumed].concat(), apart: Vec::new() }
    }

    /// Merges two conditions that differ only in which of two integers is greater. The merged
    /// condition says instead that the two integers differ.
    fn either(&self, other: &Self) -> Option<Self> {
        let only = |one: &Self, other: &Self| {
            let mut own = one.literals.iter().filter(|literal| !other.literals.contains(literal));
            let (first, second) = (own.next(), own.next());
            if second.is_some() { None } else { first.cloned() }
        };
        let (mine, others) = (only(self, other)?, only(other, self)?);
        let (less, more) = (mine.0.bound(mine.1)?, others.0.bound(others.1)?);
        let opposite = less.x == more.y && less.y == more.x && less.most + more.most == -2;
        if !opposite || !self.apart.is_empty() || !other.apart.is_empty() {
            return None;
        }
        let literals = self.literals.iter().filter(|literal| **literal != mine).cloned().collect();
        Some(Self { literals, apart: vec![Bound { most: less.most + 1, ..less }] })
    }

    fn formulas(&self, least: &HashMap<String, i64>) -> Vec<String> {
        let mut formulas = show_all(&self.literals, least);
        formulas.extend(self.apart.iter().map(Bound::show_different));
        formulas
    }

    /// Whether both conditions can hold together, assuming that terms with different labels are unrelated.
    fn possible_with(&self, other: &Self) -> bool {
        // A fast path: most pairs of conditions contain opposite answers to the same question.
        let denied = |(literal, answer): &(Literal, bool)| {
            self.literals.iter().any(|(own, yes)| own == literal && yes != answer)
        };
        if other.literals.iter().any(denied) {
            return false;
        }
        let mut terms = Terms::default();
        self.literals.iter().chain(&other.literals).all(|(literal, answer)| {
            let question = question(literal, &mut terms);
            terms.facts.assume(&question, *answer)
        })
    }

    /// Whether `other` holds whenever this condition holds.
    fn implies(&self, other: &Self) -> bool {
        if other.literals.iter().all(|literal| self.literals.contains(literal)) {
            return true;
        }
        let mut terms = Terms::default();
        for (literal, answer) in &self.literals {
            let question = question(literal, &mut terms);
            terms.facts.assume(&question, *answer);
        }
        other.literals.iter().all(|(literal, answer)| {
            let question = question(literal, &mut terms);
            terms.facts.answer(&question) == Some(*answer)
        })
    }

    /// Tries to drop each literal, and drops it if the remaining literals still exclude all of `others`.
    fn reduced(mut self, others: &[Self]) -> Self {
        // Try the last literal first, because a later literal is more often redundant.
        for nr in (0..self.literals.len()).rev() {
            let literal = self.literals.remove(nr);
            if others.iter().any(|other| self.possible_with(other)) {
                self.literals.insert(nr, literal);
            }
        }
        self
    }
}

/// The sort of all names. One sort is enough, because names of different sorts have different labels and are
/// never compared.
const SORT: &str = "named";

/// The question that a literal represents.
fn question(literal: &Literal, terms: &mut Terms) -> Question {
    let mut int = |label: &str| match label {
        "" => Int::from(0),
        label => terms.int(label, None, None).0,
    };
    match literal {
        Literal::AtMost(a, plus, b) => Question::AtMost(int(a) + *plus, int(b)),
        Literal::Same(sort, a, word) if sort == WORD => {
            Question::Same(terms.name(WORD, a), terms.word(word))
        }
        Literal::Same(_, a, b) => Question::Same(terms.name(SORT, a), terms.name(SORT, b)),
        Literal::Is(label) => Question::Is(terms.flag(label)),
    }
}

/// Finds short conditions under which the operations of an exploration commute.
pub fn conditions(exploration: &Exploration) -> Conditions {
    let (mut commute, mut differ) = (Vec::new(), Vec::new());
    for (nr, situation) in exploration.situations.iter().enumerate() {
        let condition = Condition::of(situation);
        match &situation.verdict {
            Verdict::Commute => commute.push((nr, condition)),
            Verdict::Differ(difference) => differ.push((nr, condition, difference)),
        }
    }
    let whole = |nr: &usize| Condition::whole(&exploration.situations[*nr]);
    let apart: Vec<Condition> = differ.iter().map(|(nr, ..)| whole(nr)).collect();
    let together: Vec<Condition> = commute.iter().map(|(nr, _)| whole(nr)).collect();
    let least = least(exploration);
    Conditions {
        commute: cover(&commute, &apart, &least),
        differ: reasons(&differ, &together, &least),
    }
}

/// The lower bounds of integers, by label.
fn least(exploration: &Exploration) -> HashMap<String, i64> {
    let assumed =
        exploration.situations.iter().flat_map(|situation| &situation.certificate.assumed);
    let bounds = assumed.filter_map(|(literal, answer)| literal.bound(*answer));
    bounds.filter(|bound| bound.x.is_empty()).map(|bound| (bound.y, -bound.most)).collect()
}

/// Returns each difference between orders once, the most frequent first.
fn reasons(
    differ: &[(usize, Condition, &Difference)],
    others: &[Condition],
    least: &HashMap<String, i64>,
) -> Vec<Reason> {
    // For each difference: the number of situations, and the situation with the shortest condition.
    let mut found: Vec<(&Difference, usize, usize, &Condition)> = Vec::new();
    for (nr, condition, difference) in differ {
        match found.iter_mut().find(|(known, ..)| known == difference) {
            Some((_, situations, example, shortest)) => {
                *situations += 1;
                if condition.literals.len() < shortest.literals.len() {
                    (*example, *shortest) = (*nr, condition);
                }
            }
            None => found.push((difference, 1, *nr, condition)),
        }
    }
    found.sort_by_key(|(_, situations, ..)| std::cmp::Reverse(*situations));
    parallel::all(found.len(), |nr| {
        let (difference, situations, example, condition) = found[nr];
        Reason {
            difference: difference.clone(),
            situations,
            example,
            formulas: condition.clone().reduced(others).formulas(least),
        }
    })
}

/// Greedily selects a small number of short conditions that together cover `situations`. Each
/// condition excludes all of `others`.
fn cover(
    situations: &[(usize, Condition)],
    others: &[Condition],
    least: &HashMap<String, i64>,
) -> Vec<Case> {
    let mut candidates: Vec<Condition> =
        parallel::all(situations.len(), |nr| situations[nr].1.clone().reduced(others));
    candidates.sort_by(|a, b| (a.literals.len(), a).cmp(&(b.literals.len(), b)));
    candidates.dedup();
    // The situations that each candidate covers.
    let mut covers: Vec<Vec<usize>> = parallel::all(candidates.len(), |nr| {
        let covered = |at: &usize| situations[*at].1.implies(&candidates[nr]);
        (0..situations.len()).filter(covered).collect()
    });
    for nr in 0..candidates.len() {
        for other in nr + 1..candidates.len() {
            if let Some(either) = candidates[nr].either(&candidates[other]) {
                let mut both = [&covers[nr][..], &covers[other][..]].concat();
                both.sort_unstable();
                both.dedup();
                candidates.push(either);
                covers.push(both);
            }
        }
    }
    let all = covers.clone();
    let mut chosen: Vec<usize> = Vec::new();
    // Choose the candidate that covers the most remaining situations. If several candidates cover
    // the same number, choose the first of them.
    while let Some((nr, _)) = covers
        .iter()
        .map(Vec::len)
        .enumerate()
        .filter(|(_, n)| *n > 0)
        .max_by_key(|(nr, n)| (*n, usize::MAX - nr))
    {
        let done = covers[nr].clone();
        for left in &mut covers {
            left.retain(|at| done.binary_search(at).is_err());
        }
        chosen.push(nr);
    }
    let case = |&nr: &usize| {
        // Prefer an example that few other conditions cover: it shows what this condition adds.
        let covering = |at: &usize| {
            chosen.iter().filter(|other| all[**other].binary_search(at).is_ok()).count()
        };
        let rank = |at: &&usize| (covering(at), situations[**at].1.literals.len());
        let shortest = all[nr].iter().min_by_key(rank).expect("it covers some");
        Case {
            formulas: candidates[nr].formulas(least),
            situations: all[nr].len(),
            example: situations[*shortest].0,
        }
    };
    chosen.iter().map(case).collect()
}
