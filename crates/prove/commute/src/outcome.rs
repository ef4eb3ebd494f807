//! The results of operations, as callers see them.

use crate::execution::{Execution, Stop};
use crate::facts::{Int, Name};
use crate::state::{State, Term};

/// What the caller of an operation sees: named values.
#[derive(Debug, Clone, Default)]
pub struct Outcome(Vec<(&'static str, Value)>);

/// A value that a caller sees.
#[derive(Debug, Clone, Copy)]
pub enum Value {
    /// A word, such as an error code.
    Word(&'static str),
    /// An integer.
    Int(Int),
    /// A time. Tests do not compare times, because they cannot set the clock.
    Time(Int),
    /// A name.
    Name(Name),
}

impl Value {
    fn show(&self, execution: &Execution) -> String {
        match *self {
            Self::Word(word) => word.to_owned(),
            Self::Int(int) | Self::Time(int) => int.show(execution),
            Self::Name(name) => execution.facts().label(name).to_owned(),
        }
    }
}

impl From<&'static str> for Value {
    fn from(word: &'static str) -> Self {
        Self::Word(word)
    }
}

impl From<Int> for Value {
    fn from(int: Int) -> Self {
        Self::Int(int)
    }
}

impl<S> From<Term<S>> for Value {
    fn from(term: Term<S>) -> Self {
        Self::Name(term.0)
    }
}

impl Outcome {
    /// The caller sees only that the call has returned.
    pub fn nothing() -> Self {
        Self::default()
    }

    /// The caller sees `value`, as the field `result`.
    pub fn of(value: impl Into<Value>) -> Self {
        Self::nothing().and("result", value)
    }

    /// Adds a field that the caller sees.
    pub fn and(mut self, field: &'static str, value: impl Into<Value>) -> Self {
        self.0.push((field, value.into()));
        self
    }

    /// Removes a field, so that the caller does not see it.
    pub fn without(mut self, field: &'static str) -> Self {
        self.0.retain(|(own, _)| *own != field);
        self
    }

    /// The first field in which two outcomes differ, with both values as text.
    pub(crate) fn difference(
        &self,
        other: &Self,
        execution: &mut Execution,
    ) -> Result<Option<(&'static str, [String; 2])>, Stop> {
        for ((field, a), (other_field, b)) in self.0.iter().zip(&other.0) {
            let same = match (*a, *b) {
                _ if field != other_field => execution.same_thing(field, other_field, false),
                (Value::Word(a), Value::Word(b)) => execution.same_thing(a, b, a == b),
                (Value::Int(a), Value::Int(b)) | (Value::Time(a), Value::Time(b)) => {
                    execution.same_int(a, b)?
                }
                (Value::Name(a), Value::Name(b)) => execution.same_name(a, b)?,
                (a, b) => execution.same_thing(&a.show(execution), &b.show(execution), false),
            };
            if !same {
                // If the two fields have different names, neither name describes the difference.
                let field = if field == other_field { field } else { "result" };
                return Ok(Some((field, [a.show(execution), b.show(execution)])));
            }
        }
        if self.0.len() != other.0.len() {
            let seen = [self.show(execution), other.show(execution)];
            execution.same_thing(&seen[0], &seen[1], false);
            return Ok(Some(("result", seen)));
        }
        Ok(None)
    }

    /// The fields, in order.
    pub fn parts(&self) -> &[(&'static str, Value)] {
        &self.0
    }

    /// The outcome as text.
    pub fn show(&self, execution: &Execution) -> String {
        let parts: Vec<String> = self
            .0
            .iter()
            .map(|(field, value)| match *field {
                "result" => value.show(execution),
                field => format!("{field} {}", value.show(execution)),
            })
            .collect();
        if parts.is_empty() { "nothing".to_owned() } else { parts.join(", ") }
    }
}
