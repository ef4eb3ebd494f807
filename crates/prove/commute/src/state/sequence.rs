//! Stacks and queues of unknown length and content.

use super::{Part, State};
use crate::execution::{Execution, Stop};
use crate::facts::Int;

/// A sequence of unknown length and content that is taken from at one end.
#[derive(Debug, Clone)]
struct Sequence<V> {
    label: String,
    /// Initial length.
    length: Int,
    /// How many of the initial elements are gone.
    taken: i64,
    /// What has been added since.
    added: Vec<V>,
}

impl<V: State> Sequence<V> {
    fn unknown(execution: &mut Execution, label: &str) -> Self {
        let length = execution.int(&format!("{label}.length"), Some(0), None);
        Self { label: label.to_owned(), length, taken: 0, added: Vec::new() }
    }

    fn has_initial(&self, execution: &mut Execution) -> Result<bool, Stop> {
        Ok(!execution.at_most(self.length, self.taken)?)
    }

    /// The next of the initial elements.
    fn take_initial(&mut self, execution: &mut Execution) -> V {
        let label = format!("{}({})", self.label, self.taken);
        self.taken += 1;
        V::unknown(execution, &label)
    }

    fn length(&self) -> Int {
        self.length - self.taken + self.added.len() as i64
    }

    /// The initial elements, as many as there have to be; the first is the first to be taken.
    fn initial(&self, execution: &mut Execution) -> Vec<V> {
        let mut sequence = self.clone();
        let least = execution.facts().least(self.length).expect("a length is not negative");
        (0..least).map(|_| sequence.take_initial(execution)).collect()
    }

    fn part(&self, execution: &mut Execution) -> Part {
        let elements = self.initial(execution);
        let elements = elements.into_iter().map(|element| element.part(execution)).collect();
        Part::Sequence { length: self.length, elements }
    }

    /// Whether all of `a` and `b` agree, element by element.
    fn same_elements(a: &[V], b: &[V], execution: &mut Execution) -> Result<bool, Stop> {
        let lengths = [a.len().to_string(), b.len().to_string()].map(|n| format!("{n} of them"));
        if !execution.same_thing(&lengths[0], &lengths[1], a.len() == b.len()) {
            return Ok(false);
        }
        for (a, b) in a.iter().zip(b) {
            if !a.same(b, execution)? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// A stack: what was pushed last is popped first.
#[derive(Debug, Clone)]
pub struct Stack<V>(Sequence<V>);

impl<V: State> Stack<V> {
    /// Puts `value` on top.
    pub fn push(&mut self, value: V) {
        self.0.added.push(value);
    }

    /// Takes the top away.
    pub fn pop(&mut self, execution: &mut Execution) -> Result<Option<V>, Stop> {
        if let Some(value) = self.0.added.pop() {
            return Ok(Some(value));
        }
        Ok(if self.0.has_initial(execution)? { Some(self.0.take_initial(execution)) } else { None })
    }
}

impl<V: State> State for Stack<V> {
    fn unknown(execution: &mut Execution, label: &str) -> Self {
        Self(Sequence::unknown(execution, label))
    }

    fn same(&self, other: &Self, execution: &mut Execution) -> Result<bool, Stop> {
        // What both have left of the initial elements lies at the bottom, and is the same.
        let taken = self.0.taken.max(other.0.taken);
        let mut above = |side: &Self| {
            let mut sequence = side.0.clone();
            let mut elements = Vec::new();
            while sequence.taken < taken {
                elements.push(sequence.take_initial(execution));
            }
            elements.reverse();
            elements.extend(sequence.added);
            elements
        };
        let (a, b) = (above(self), above(other));
        Sequence::same_elements(&a, &b, execution)
    }

    fn show(&self, _: &Execution) -> String {
        self.0.label.clone()
    }

    fn part(&self, execution: &mut Execution) -> Part {
        self.0.part(execution)
    }
}

/// A queue: what was pushed first is popped first.
#[derive(Debug, Clone)]
pub struct Queue<V>(Sequence<V>);

impl<V: State> Queue<V> {
    /// One without anything in it.
    pub fn empty() -> Self {
        let length = Int::from(0);
        Self(Sequence { label: "empty".to_owned(), length, taken: 0, added: Vec::new() })
    }

    /// Puts `value` at the end.
    pub fn push(&mut self, value: V) {
        self.0.added.push(value);
    }

    /// Takes the front away.
    pub fn pop(&mut self, execution: &mut Execution) -> Result<Option<V>, Stop> {
        if self.0.has_initial(execution)? {
            return Ok(Some(self.0.take_initial(execution)));
        }
        Ok(if self.0.added.is_empty() { None } else { Some(self.0.added.remove(0)) })
    }

    /// How many there are.
    pub fn length(&self) -> Int {
        self.0.length()
    }

    /// Those that are there at first, as many as there have to be.
    pub fn initial(&self, execution: &mut Execution) -> Vec<V> {
        self.0.initial(execution)
    }
}

impl<V: State> State for Queue<V> {
    fn unknown(execution: &mut Execution, label: &str) -> Self {
        Self(Sequence::unknown(execution, label))
    }

    fn same(&self, other: &Self, execution: &mut Execution) -> Result<bool, Stop> {
        let (mut a, mut b) = (self.0.clone(), other.0.clone());
        if a.taken != b.taken {
            // Element by element: then nothing initial is left in either.
            let mut fronts = [Vec::new(), Vec::new()];
            for (sequence, front) in [&mut a, &mut b].into_iter().zip(&mut fronts) {
                while sequence.has_initial(execution)? {
                    front.push(sequence.take_initial(execution));
                }
                front.append(&mut sequence.added);
            }
            return Sequence::same_elements(&fronts[0], &fronts[1], execution);
        }
        Sequence::same_elements(&a.added, &b.added, execution)
    }

    fn show(&self, _: &Execution) -> String {
        self.0.label.clone()
    }

    fn part(&self, execution: &mut Execution) -> Part {
        self.0.part(execution)
    }
}
