//! Explorations as SMT-LIB 2.
//!
//! A term becomes a constant with the same label. All names, whatever their sorts, become constants of one
//! uninterpreted sort. One sort is enough, because no formula compares names of two sorts: if
//! formulas are satisfiable, they are also satisfiable with different values for names of different
//! sorts.

use std::collections::BTreeSet;

use knee_commute::{Claim, Exploration, Literal, WORD};

use crate::entries::add_keys;

/// A label as a quoted symbol.
pub(crate) fn symbol(label: &str) -> String {
    assert!(!label.contains(['|', '\\']), "{label} cannot be quoted");
    format!("|{label}|")
}

pub(crate) fn number(n: i64) -> String {
    if n < 0 { format!("(- {})", n.unsigned_abs()) } else { n.to_string() }
}

/// A variable plus a constant. An empty label stands for zero.
pub(crate) fn sum(label: &str, plus: i64) -> String {
    match (label, plus) {
        ("", plus) => number(plus),
        (label, 0) => symbol(label),
        (label, plus) => format!("(+ {} {})", symbol(label), number(plus)),
    }
}

pub(crate) fn not(formula: &str) -> String {
    format!("(not {formula})")
}

pub(crate) fn and(formulas: impl IntoIterator<Item = String>) -> String {
    joined("and", "true", formulas)
}

pub(crate) fn or(formulas: impl IntoIterator<Item = String>) -> String {
    joined("or", "false", formulas)
}

fn joined(by: &str, none: &str, formulas: impl IntoIterator<Item = String>) -> String {
    let formulas: Vec<String> = formulas.into_iter().collect();
    match &formulas[..] {
        [] => none.to_owned(),
        [formula] => formula.clone(),
        more => format!("({by} {})", more.join(" ")),
    }
}

pub(crate) fn literal((literal, holds): &(Literal, bool)) -> String {
    let formula = match literal {
        Literal::Same(_, a, b) => format!("(= {} {})", symbol(a), symbol(b)),
        Literal::AtMost(a, plus, b) => format!("(<= {} {})", sum(a, *plus), sum(b, 0)),
        Literal::Is(label) => symbol(label),
    };
    if *holds { formula } else { not(&formula) }
}

pub(crate) fn all(literals: &[(Literal, bool)]) -> String {
    and(literals.iter().map(literal))
}

pub(crate) fn claim(claim: &Claim) -> String {
    match claim {
        Claim::Names(a, b) => format!("(= {} {})", symbol(a), symbol(b)),
        Claim::Ints(a, plus, b) => format!("(= {} {})", sum(a, *plus), sum(b, 0)),
        Claim::Things(..) => "false".to_owned(),
    }
}

/// The terms of formulas, by label.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Terms {
    pub(crate) names: BTreeSet<String>,
    pub(crate) ints: BTreeSet<String>,
    pub(crate) flags: BTreeSet<String>,
    /// Names that are literal words. The solver does not know that literal words are pairwise distinct, so
    /// each formula asserts this.
    pub(crate) words: BTreeSet<String>,
}

impl Terms {
    /// The terms of an exploration.
    pub(crate) fn of(exploration: &Exploration) -> Self {
        let mut terms = Self::default();
        for situation in &exploration.situations {
            let certificate = &situation.certificate;
            terms.add_literals(&situation.condition);
            terms.add_literals(&certificate.assumed);
            terms.names.extend(certificate.fresh.iter().cloned());
            terms.ints.extend(certificate.open.iter().cloned());
            certificate.claims.iter().for_each(|claim| terms.add_claim(claim));
        }
        for path in &exploration.infeasible {
            terms.add_literals(&path.condition);
            terms.add_literals(&path.assumed);
        }
        add_keys(&mut terms);
        terms
    }

    pub(crate) fn add_literals(&mut self, literals: &[(Literal, bool)]) {
        for (literal, _) in literals {
            match literal {
                Literal::Same(sort, a, b) => {
                    self.names.extend([a.clone(), b.clone()]);
                    if sort == WORD {
                        self.words.insert(b.clone());
                    }
                }
                Literal::AtMost(a, _, b) => self.add_ints([a, b]),
                Literal::Is(label) => {
                    self.flags.insert(label.clone());
                }
            }
        }
    }

    pub(crate) fn add_claim(&mut self, claim: &Claim) {
        match claim {
            Claim::Names(a, b) => self.names.extend([a.clone(), b.clone()]),
            Claim::Ints(a, _, b) => self.add_ints([a, b]),
            Claim::Things(..) => {}
        }
    }

    fn add_ints(&mut self, labels: [&String; 2]) {
        self.ints.extend(labels.into_iter().filter(|label| !label.is_empty()).cloned());
    }

    /// The assertion that no two literal words are equal.
    fn words_differ(&self) -> String {
        let words: Vec<String> = self.words.iter().map(|word| symbol(word)).collect();
        if words.len() < 2 {
            String::new()
        } else {
            format!("(assert (distinct {}))\n", words.join(" "))
        }
    }

    /// The declarations of the terms.
    pub(crate) fn declared(&self) -> String {
        let declare = |labels: &BTreeSet<String>, sort: &str| {
            let one = |label: &String| format!("(declare-const {} {sort})\n", symbol(label));
            labels.iter().map(one).collect::<String>()
        };
        "(declare-sort Name 0)\n".to_owned()
            + &declare(&self.names, "Name")
            + &declare(&self.ints, "Int")
            + &declare(&self.flags, "Bool")
            + &self.words_differ()
    }
}
