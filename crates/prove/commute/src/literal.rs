//! Questions and formulas as they read in every execution.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

/// A question as it reads in every execution, whatever its terms are numbered there.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Literal {
    /// Are these of a sort equal?
    Same(String, String, String),
    /// Is the first plus so much at most the second? An empty label is zero.
    AtMost(String, i64, String),
    /// Is it true?
    Is(String),
}

/// A variable and a constant; without a label the variable is zero.
pub(crate) fn show_sum(label: &str, plus: i64) -> String {
    match (label, plus) {
        ("", n) => n.to_string(),
        (label, 0) => label.to_owned(),
        (label, n) if n > 0 => format!("{label} + {n}"),
        (label, n) => format!("{label} - {}", -n),
    }
}

/// That `x` exceeds `y` by at most `most`; what has no label is zero.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Bound {
    pub(crate) x: String,
    pub(crate) y: String,
    pub(crate) most: i64,
}

impl Bound {
    /// Whether the two say that `x` is `y` and `most`.
    fn meets(&self, other: &Self) -> bool {
        self.x == other.y && self.y == other.x && self.most == -other.most
    }

    /// That the difference is `most`.
    fn show_equal(&self) -> String {
        let (left, right) = self.sides();
        format!("{left} = {right}")
    }

    /// That the difference is anything but `most`.
    pub(crate) fn show_different(&self) -> String {
        let (left, right) = self.sides();
        format!("{left} ≠ {right}")
    }

    /// What is on either side of an equals sign.
    fn sides(&self) -> (&str, String) {
        match self.x.as_str() {
            "" => (&self.y, (-self.most).to_string()),
            x => (x, show_sum(&self.y, self.most)),
        }
    }

    /// As a formula, with the variable on the left where there is only one.
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
    /// The bound that it or its opposite is, if it is one.
    pub(crate) fn bound(&self, answer: bool) -> Option<Bound> {
        let Self::AtMost(a, plus, b) = self else { return None };
        let (a, b) = (a.clone(), b.clone());
        Some(match answer {
            true => Bound { x: a, y: b, most: -plus },
            // b < a + plus
            false => Bound { x: b, y: a, most: plus - 1 },
        })
    }

    /// It or its opposite, as a formula.
    pub fn show(&self, answer: bool) -> String {
        match (self, answer) {
            (Self::Same(_, a, b), true) => format!("{a} = {b}"),
            (Self::Same(_, a, b), false) => format!("{a} ≠ {b}"),
            (Self::AtMost(..), answer) => self.bound(answer).expect("it is one").show(),
            (Self::Is(label), true) => label.clone(),
            // What is said of something is denied where it is said.
            (Self::Is(label), false) => match (label.split_once(" is "), label.split_once(" has "))
            {
                (Some((who, what)), _) => format!("{who} is not {what}"),
                (_, Some((who, what))) => format!("{who} has no {what}"),
                (None, None) => format!("not {label}"),
            },
        }
    }
}

/// Formulas that hold together, as they read best: two bounds that meet are an equation, and one
/// that follows from another is left out. `least` is what integers are known to be at least.
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
                    // The first of the two says it.
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
