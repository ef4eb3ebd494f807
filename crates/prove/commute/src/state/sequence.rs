//! Stacks and queues whose initial length and content are unknown.

use super::{Part, State};
use crate::execution::{Execution, Stop};
use crate::facts::Int;

/// The common part of stacks and queues: the initial elements, which are taken from one end, and the
/// elements that were added later.
#[derive(Debug, Clone)]
struct Sequence<V> {
    label: String,
    /// The number of initial elements.
    length: Int,
    /// The number of initial elements that were taken.
    taken: i64,
    /// The elements that were added and have not been taken.
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

    /// Takes the next initial element.
    fn take_initial(&mut self, execution: &mut Execution) -> V {
        let label = format!("{}({})", self.label, self.taken);
        self.taken += 1;
        V::unknown(execution, &label)
    }

    fn length(&self) -> Int {
        self.length - self.taken + self.added.len() as i64
    }

    /// The initial elements that are known to exist, in the order in which they are taken.
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

    /// Whether `a` and `b` are equal, element by element.
    fn same_elements(a: &[V], b: &[V], execution: &mut Execution) -> Result<bool, Stop> {
        let lengths = [a.len().to_string(), b.len().to_string()].map(|n| format!("{n} elements"));
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

/// A stack: last in, first out.
#[derive(Debug, Clone)]
pub struct Stack<V>(Sequence<V>);

impl<V: State> Stack<V> {
    /// Pushes a value.
    pub fn push(&mut self, value: V) {
        self.0.added.push(value);
    }

    /// Removes and returns the top value.
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
        // Initial elements that neither stack has taken are at the bottom of both stacks, so only the
        // elements above them are compared.
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

/// A queue: first in, first out.
#[derive(Debug, Clone)]
pub struct Queue<V>(Sequence<V>);

impl<V: State> Queue<V> {
    /// An empty queue.
    pub fn empty() -> Self {
        let length = Int::from(0);
        Self(Sequence { label: "empty".to_owned(), length, taken: 0, added: Vec::new() })
    }

    /// Appends a value.
    pub fn push(&mut self, value: V) {
        self.0.added.push(value);
    }

    /// Removes and returns the first value.
    pub fn pop(&mut self, execution: &mut Execution) -> Result<Option<V>, Stop> {
        if self.0.has_initial(execution)? {
            return Ok(Some(self.0.take_initial(execution)));
        }
        Ok(if self.0.added.is_empty() { None } else { Some(self.0.added.remove(0)) })
    }

    /// The number of elements.
    pub fn length(&self) -> Int {
        self.0.length()
    }

    /// The initial elements that are known to exist, in the order in which they are taken.
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
            // One queue has more initial elements left than the other, so an initial element of one may be
            // compared with an added element of the other. Take all initial elements, and compare the queues
            // from the front.
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
