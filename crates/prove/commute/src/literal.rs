//! Literals: questions with labels in place of terms. A literal means the same in every execution.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

/// A question with labels in place of terms.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Literal {
    /// Are two names of the same sort equal? The first field is the sort.
    Same(String, String, String),
    /// Is the first integer plus the constant at most the second integer? An empty label stands for
    /// zero.
    AtMost(String, i64, String),
    /// Is this flag true?
    Is(String),
}

/// A variable plus a constant, as text. An empty label stands for zero.
pub(crate) fn show_sum(label: &str, plus: i64) -> String {
    match (label, plus) {
        ("", n) => n.to_string(),
        (label, 0) => label.to_owned(),
        (label, n) if n > 0 => format!("{label} + {n}"),
        (label, n) => format!("{label} - {}", -n),
    }
}

/// The bound `x` - `y` ≤ `most`. An empty label stands for zero.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Bound {
    pub(crate) x: String,
    pub(crate) y: String,
    pub(crate) most: i64,
}

impl Bound {
    /// Whether the two bounds together mean `x` = `y` + `most`.
    fn meets(&self, other: &Self) -> bool {
        self.x == other.y && self.y == other.x && self.most == -other.most
    }

    /// The formula `x` = `y` + `most`.
    fn show_equal(&self) -> String {
        let (left, right) = self.sides();
        format!("{left} = {right}")
    }

    /// The formula `x` ≠ `y` + `most`.
    pub(crate) fn show_different(&self) -> String {
        let (left, right) = self.sides();
        format!("{left} ≠ {right}")
    }

    /// The two sides of `x` = `y` + `most`.
    fn sides(&self) -> (&str, String) {
        match self.x.as_str() {
            "" => (&self.y, (-self.most).to_string()),
            x => (x, show_sum(&self.y, self.most)),
        }
    }

    /// The bound as a formula. If the bound has only one variable, this variable is on the left.
    fn show(&self) -> String {
        let Self { x, y, most } = self;
        match (x.as_str(), *most) {
            ("", most) => format!("{y} ≥ {}", -most),
            (x, -1) if !y.is_empty() => format!("{x} < {y}"),
            (x, most) => format!("{x} ≤ {}", show_sum(y, most)),
        }
    }
}

impl Literal {
    /// The bound that follows from this answer to the literal; `None` if the literal does not compare
    /// integers.
    pub(crate) fn bound(&self, answer: bool) -> Option<Bound> {
        let Self::AtMost(a, plus, b) = self else { return None };
        let (a, b) = (a.clone(), b.clone());
        Some(match answer {
            true => Bound { x: a, y: b, most: -plus },
            // b < a + plus
            false => Bound { x: b, y: a, most: plus - 1 },
        })
    }

    /// The literal as a formula if the answer is yes, and otherwise its negation.
    pub fn show(&self, answer: bool) -> String {
        match (self, answer) {
            (Self::Same(_, a, b), true) => format!("{a} = {b}"),
            (Self::Same(_, a, b), false) => format!("{a} ≠ {b}"),
            (Self::AtMost(..), answer) => self.bound(answer).expect("it is one").show(),
            (Self::Is(label), true) => label.clone(),
            // In a negation, "not" or "no" follows the verb.
            (Self::Is(label), false) => match (label.split_once(" is "), label.split_once(" has "))
            {
                (Some((who, what)), _) => format!("{who} is not {what}"),
                (_, Some((who, what))) => format!("{who} has no {what}"),
                (None, None) => format!("not {label}"),
            },
        }
    }
}

/// Simplified formulas for a conjunction of literals. Two bounds that together state an equation are shown as
/// this equation, and a bound that follows from another bound is left out. `least` contains the known lower
/// bounds of integers.
pub(crate) fn show_all(literals: &[(Literal, bool)], least: &HashMap<String, i64>) -> Vec<String> {
    let mut bounds: Vec<Bound> =
        literals.iter().filter_map(|(literal, answer)| literal.bound(*answer)).collect();
    let known: Vec<Bound> = bounds
        .iter()
        .filter(|bound| bound.y.is_empty())
        .filter_map(|bound| {
            let least = least.get(&bound.x)?;
            Some(Bound { x: String::new(), y: bound.x.clone(), most: -least })
        })
        .collect();
    bounds.extend(known);
    let mut shown: Vec<String> = Vec::new();
    for (literal, answer) in literals {
        let formula = match literal.bound(*answer) {
            None => literal.show(*answer),
            Some(bound) => {
                let tighter = |other: &Bound| {
                    (&other.x, &other.y) == (&bound.x, &bound.y) && other.most < bound.most
                };
                if bounds.iter().any(tighter) {
                    continue;
                }
                match bounds.iter().position(|other| bound.meets(other)) {
                    // The equation is shown in place of the first of the two bounds.
                    Some(nr) if bounds.iter().position(|b| *b == bound) > Some(nr) => continue,
                    Some(_) => bound.show_equal(),
                    None => bound.show(),
                }
            }
        };
        if !shown.contains(&formula) {
            shown.push(formula);
        }
    }
    shown
}
