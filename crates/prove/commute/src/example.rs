//! Concrete values for a situation.

use std::collections::HashMap;

use serde_json::{Map, Value, json};

use crate::facts::{Facts, Int, Name, Question};
use crate::outcome::{Outcome, Value as Seen};
use crate::state::{Part, Term, Truth};

/// Concrete values for all terms of a situation. Names are numbered in the order in which the test
/// uses them, so examples that differ only in names have the same text. Integers are as small as
/// possible, and flags that do not matter are false.
pub struct Example<'f> {
    facts: &'f Facts,
    ints: Vec<i64>,
    names: HashMap<Name, String>,
    /// For each sort, how many of its names have a number.
    of_sort: HashMap<&'static str, usize>,
}

impl<'f> Example<'f> {
    pub(crate) fn new(facts: &'f Facts) -> Self {
        let ints = facts.example_ints();
        Self { facts, ints, names: HashMap::new(), of_sort: HashMap::new() }
    }

    /// The text of a name, such as `key0`.
    pub fn term<S>(&mut self, term: Term<S>) -> String {
        self.name(term.0)
    }

    pub(crate) fn name(&mut self, name: Name) -> String {
        let sort = self.facts.sort(name);
        if let Some(constant) = self.facts.constant_of(name) {
            return constant.to_owned();
        }
        let of_sort = &mut self.of_sort;
        let new = || {
            let nr = of_sort.entry(sort).or_insert(0);
            *nr += 1;
            format!("{}{}", sort.to_lowercase(), *nr - 1)
        };
        self.names.entry(self.facts.oldest(name)).or_insert_with(new).clone()
    }

    /// The value of an argument that is one of `words`: the first word that the situation allows.
    pub(crate) fn word(&self, argument: Name, words: &[&'static str]) -> &'static str {
        let can_be = |word: &&&'static str| self.facts.can_be_word(argument, word);
        words.iter().find(can_be).expect("an argument is one of its words")
    }

    /// The value of an integer.
    pub fn int(&self, int: Int) -> i64 {
        Facts::value(int, &self.ints)
    }

    /// A truth value.
    pub fn truth(&self, truth: Truth) -> bool {
        match truth {
            Truth::Known(value) => value,
            Truth::Initial(flag) => self.facts.answer(&Question::Is(flag)).unwrap_or(false),
        }
    }

    /// What the caller of an operation sees, by field: a word, a number, `{"name": …}`, or
    /// `{"any": …}` if the interface leaves the value open.
    pub(crate) fn outcome(&mut self, outcome: &Outcome) -> Value {
        let parts = outcome.parts().iter().map(|(field, seen)| {
            let value = match *seen {
                Seen::Word(word) => json!(word),
                Seen::Time(_) => json!({ "any": "time" }),
                Seen::Int(int) if self.facts.is_open(int) => {
                    json!({ "any": self.facts.kind(int) })
                }
                Seen::Int(int) => json!(self.int(int)),
                Seen::Name(name) if self.facts.is_fresh(name) => json!({ "any": self.name(name) }),
                Seen::Name(name) => json!({ "name": self.name(name) }),
            };
            ((*field).to_owned(), value)
        });
        Value::Object(parts.collect::<Map<String, Value>>())
    }

    /// A part of a state as JSON.
    pub fn part(&mut self, part: &Part) -> Value {
        match part {
            Part::Name(name) => json!(self.name(*name)),
            Part::Int(int) => json!(self.int(*int)),
            Part::Truth(truth) => json!(self.truth(*truth)),
            Part::Fields(fields) => {
                let fields =
                    fields.iter().map(|(name, part)| ((*name).to_owned(), self.part(part)));
                Value::Object(fields.collect())
            }
            Part::Entries(entries) => {
                let entries = entries.iter().map(|(key, value)| {
                    let value = value.as_ref().map(|value| self.part(value));
                    json!({ "key": self.part(key), "value": value })
                });
                Value::Array(entries.collect())
            }
            Part::Sequence { length, elements } => {
                let elements: Vec<Value> =
                    elements.iter().map(|element| self.part(element)).collect();
                json!({ "length": self.int(*length), "first": elements })
            }
        }
    }

    /// The steps that set up a state, one for each known part: `{"set": "table[key0]", "to":
    /// "content0"}`. A step sets an absent part to `null`.
    pub fn steps(&mut self, state: &Part) -> Vec<Value> {
        let mut steps = Vec::new();
        self.steps_to(String::new(), state, &mut steps);
        steps
    }

    fn steps_to(&mut self, at: String, part: &Part, steps: &mut Vec<Value>) {
        match part {
            Part::Fields(fields) if !fields.is_empty() => {
                for (name, part) in fields {
                    self.steps_to(crate::join(&at, name), part, steps);
                }
            }
            Part::Entries(entries) => {
                for (key, value) in entries {
                    let key = match self.part(key) {
                        Value::String(name) => name,
                        Value::Object(parts) => {
                            let parts: Vec<&str> =
                                parts.values().filter_map(Value::as_str).collect();
                            parts.join("/")
                        }
                        other => other.to_string(),
                    };
                    let at = format!("{at}[{key}]");
                    match value {
                        Some(value) => self.steps_to(at, value, steps),
                        None => steps.push(json!({ "set": at, "to": null })),
                    }
                }
            }
            leaf => steps.push(json!({ "set": at, "to": self.part(leaf) })),
        }
    }
}
