//! Stacks and queues of unknown length and content.

use super::{Part, State};
use crate::facts::Int;
use crate::world::{Stop, World};

/// A sequence of unknown length and content that is taken from at one end.
#[derive(Debug, Clone)]
struct Pile<V> {
    label: String,
    /// Initial length.
    length: Int,
    /// How many of the initial elements are gone.
    taken: i64,
    /// What has been added since.
    added: Vec<V>,
}

impl<V: State> Pile<V> {
    fn unknown(world: &mut World, label: &str) -> Self {
        let length = world.int(&format!("{label}.length"), Some(0), None);
        Self { label: label.to_owned(), length, taken: 0, added: Vec::new() }
    }

    fn has_initial(&self, world: &mut World) -> Result<bool, Stop> {
        Ok(!world.at_most(self.length, self.taken)?)
    }

    /// The next of the initial elements.
    fn take_initial(&mut self, world: &mut World) -> V {
        let label = format!("{}({})", self.label, self.taken);
        self.taken += 1;
        V::unknown(world, &label)
    }

    fn length(&self) -> Int {
        self.length - self.taken + self.added.len() as i64
    }

    /// The initial elements, as many as there have to be; the first is the first to be taken.
    fn initial(&self, world: &mut World) -> Vec<V> {
        let mut pile = self.clone();
        let least = world.facts().least(self.length).expect("a length is not negative");
        (0..least).map(|_| pile.take_initial(world)).collect()
    }

    fn part(&self, world: &mut World) -> Part {
        let elements = self.initial(world);
        let elements = elements.into_iter().map(|element| element.part(world)).collect();
        Part::Sequence { length: self.length, elements }
    }

    /// Whether all of `a` and `b` agree, element by element.
    fn same_elements(a: &[V], b: &[V], world: &mut World) -> Result<bool, Stop> {
        let lengths = [a.len().to_string(), b.len().to_string()].map(|n| format!("{n} of them"));
        if !world.same_thing(&lengths[0], &lengths[1], a.len() == b.len()) {
            return Ok(false);
        }
        for (a, b) in a.iter().zip(b) {
            if !a.same(b, world)? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// A stack: what was pushed last is popped first.
#[derive(Debug, Clone)]
pub struct Stack<V>(Pile<V>);

impl<V: State> Stack<V> {
    /// Puts `value` on top.
    pub fn push(&mut self, value: V) {
        self.0.added.push(value);
    }

    /// Takes the top away.
    pub fn pop(&mut self, world: &mut World) -> Result<Option<V>, Stop> {
        if let Some(value) = self.0.added.pop() {
            return Ok(Some(value));
        }
        Ok(if self.0.has_initial(world)? { Some(self.0.take_initial(world)) } else { None })
    }
}

impl<V: State> State for Stack<V> {
    fn unknown(world: &mut World, label: &str) -> Self {
        Self(Pile::unknown(world, label))
    }

    fn same(&self, other: &Self, world: &mut World) -> Result<bool, Stop> {
        // What both have left of the initial elements lies at the bottom, and is the same.
        let taken = self.0.taken.max(other.0.taken);
        let mut above = |side: &Self| {
            let mut pile = side.0.clone();
            let mut elements = Vec::new();
            while pile.taken < taken {
                elements.push(pile.take_initial(world));
            }
            elements.reverse();
            elements.extend(pile.added);
            elements
        };
        let (a, b) = (above(self), above(other));
        Pile::same_elements(&a, &b, world)
    }

    fn show(&self, _: &World) -> String {
        self.0.label.clone()
    }

    fn part(&self, world: &mut World) -> Part {
        self.0.part(world)
    }
}

/// A queue: what was pushed first is popped first.
#[derive(Debug, Clone)]
pub struct Queue<V>(Pile<V>);

impl<V: State> Queue<V> {
    /// One without anything in it.
    pub fn empty() -> Self {
        let length = Int::from(0);
        Self(Pile { label: "empty".to_owned(), length, taken: 0, added: Vec::new() })
    }

    /// Puts `value` at the end.
    pub fn push(&mut self, value: V) {
        self.0.added.push(value);
    }

    /// Takes the front away.
    pub fn pop(&mut self, world: &mut World) -> Result<Option<V>, Stop> {
        if self.0.has_initial(world)? {
            return Ok(Some(self.0.take_initial(world)));
        }
        Ok(if self.0.added.is_empty() { None } else { Some(self.0.added.remove(0)) })
    }

    /// How many there are.
    pub fn length(&self) -> Int {
        self.0.length()
    }

    /// Those that are there at first, as many as there have to be.
    pub fn initial(&self, world: &mut World) -> Vec<V> {
        self.0.initial(world)
    }
}

impl<V: State> State for Queue<V> {
    fn unknown(world: &mut World, label: &str) -> Self {
        Self(Pile::unknown(world, label))
    }

    fn same(&self, other: &Self, world: &mut World) -> Result<bool, Stop> {
        let (mut a, mut b) = (self.0.clone(), other.0.clone());
        if a.taken != b.taken {
            // Element by element: then nothing initial is left in either.
            let mut fronts = [Vec::new(), Vec::new()];
            for (pile, front) in [&mut a, &mut b].into_iter().zip(&mut fronts) {
                while pile.has_initial(world)? {
                    front.push(pile.take_initial(world));
                }
                front.append(&mut pile.added);
            }
            return Pile::same_elements(&fronts[0], &fronts[1], world);
        }
        Pile::same_elements(&a.added, &b.added, world)
    }

    fn show(&self, _: &World) -> String {
        self.0.label.clone()
    }

    fn part(&self, world: &mut World) -> Part {
        self.0.part(world)
    }
}
