//! What an author of a model writes: a state, and operations on it.

use crate::example::Example;
use crate::facts::{Int, Name, WORD};
use crate::state::{Sort, State, Term};
use crate::world::{Argument, Stop, World};

/// The steps to an initial state, which whoever runs the tests understands.
pub type Setup<S> = fn(&S, &mut World, &mut Example<'_>) -> Vec<serde_json::Value>;

/// An interface: an unknown initial state, and operations.
pub struct Interface<S> {
    /// What it is called.
    pub name: &'static str,
    /// What it is, and what there is to learn from it.
    pub about: &'static str,
    /// Takes for granted what holds in every state that can be reached.
    pub valid: fn(&S, &mut World) -> Result<(), Stop>,
    /// How tests come to an initial state; without it, one step sets each part of the state that is
    /// known.
    pub setup: Option<Setup<S>>,
    /// In the order in which they are shown.
    pub operations: Vec<Operation<S>>,
}

impl<S> Interface<S> {
    /// The operation of that name.
    pub fn operation(&self, name: &str) -> Option<&Operation<S>> {
        self.operations.iter().find(|operation| operation.name == name)
    }
}

/// Without operations; any state can be reached, and is set part by part.
impl<S> Default for Interface<S> {
    fn default() -> Self {
        Self { name: "", about: "", valid: |_, _| Ok(()), setup: None, operations: Vec::new() }
    }
}

/// An operation of an interface.
pub struct Operation<S> {
    /// What it is called.
    pub name: &'static str,
    /// Its arguments, and what it does that matters here.
    pub about: &'static str,
    /// Does it: changes the state, says what the caller sees.
    pub apply: fn(&mut S, &mut Call<'_>) -> Result<Outcome, Stop>,
}

/// One call of an operation: where its arguments come from.
pub struct Call<'w> {
    /// The execution, which answers questions.
    pub world: &'w mut World,
    /// `a`, `b`, `c`: which of the calls.
    label: &'static str,
    nr: usize,
}

impl<'w> Call<'w> {
    pub(crate) fn new(world: &'w mut World, label: &'static str, nr: usize) -> Self {
        Self { world, label, nr }
    }

    /// Which of the calls, from 0.
    pub fn nr(&self) -> usize {
        self.nr
    }

    /// Which of two processes calls, 0 or 1: the first call in the first, without loss of
    /// generality.
    pub fn process(&mut self) -> Result<u8, Stop> {
        let process = u8::from(self.nr > 0 && self.fact("is in the other process")?);
        self.world.called_in(self.nr, process);
        Ok(process)
    }

    fn label(&self, name: &str) -> String {
        format!("{}.{name}", self.label)
    }

    /// An argument of a sort of names.
    pub fn term<S: Sort>(&mut self, name: &str) -> Term<S> {
        let label = self.label(name);
        let argument = self.world.name(S::NAME, &label);
        self.world.given(self.nr, name, Argument::Name(argument));
        Term::new(argument)
    }

    /// An integer argument between two bounds.
    pub fn int(&mut self, name: &str, range: std::ops::RangeInclusive<i64>) -> Int {
        let label = self.label(name);
        let argument = self.world.int(&label, Some(*range.start()), Some(*range.end()));
        self.world.given(self.nr, name, Argument::Int(argument));
        argument
    }

    /// A yes or no, as an argument.
    pub fn flag(&mut self, name: &str) -> Result<bool, Stop> {
        let flag = self.world.flag(&self.label(name));
        self.world.given(self.nr, name, Argument::Flag(flag));
        self.world.is(flag)
    }

    /// An argument that is one of some words, which [`Word::is`] asks for.
    pub fn word(&mut self, name: &str, words: &'static [&'static str]) -> Word {
        let label = self.label(name);
        let argument = self.world.name(WORD, &label);
        self.world.given(self.nr, name, Argument::Word(argument, words));
        Word { argument, words }
    }

    /// Something that may be true of the call as a whole, such as `is in the other process`.
    pub fn fact(&mut self, what: &str) -> Result<bool, Stop> {
        let flag = self.world.flag(&format!("{} {what}", self.label));
        self.world.is(flag)
    }

    /// A name that nothing in the state has: what an allocator hands out that may hand out any.
    /// Calls that hand out one each in different orders may hand out the same one.
    pub fn fresh<S: Sort>(&mut self, name: &str) -> Result<Term<S>, Stop> {
        let label = self.label(name);
        Ok(Term::new(self.world.fresh(S::NAME, &label)?))
    }

    /// An integer that the interface leaves open, such as a time; it is chosen so that orders
    /// agree, where it can be.
    pub fn open_int(&mut self, name: &str) -> Int {
        let label = self.label(name);
        self.world.open_int(&label, None, None)
    }

    /// An integer that the interface leaves open and that nobody else can mean: `at` plus the
    /// number of the call.
    pub fn unused_int(&mut self, name: &str, at: i64) -> Int {
        let (label, at) = (self.label(name), at + self.nr as i64);
        self.world.open_int(&label, Some(at), Some(at))
    }
}

/// An argument that is one of some words.
#[derive(Debug, Clone, Copy)]
pub struct Word {
    argument: Name,
    words: &'static [&'static str],
}

impl Word {
    /// Whether it is this one.
    pub fn is(self, word: &'static str, world: &mut World) -> Result<bool, Stop> {
        assert!(self.words.contains(&word), "{word} is not one of {:?}", self.words);
        let constant = world.word(word);
        world.same_name(self.argument, constant)
    }

    /// Which one it is; they are asked for in their order.
    pub fn which(self, world: &mut World) -> Result<&'static str, Stop> {
        for word in self.words {
            if self.is(word, world)? {
                return Ok(word);
            }
        }
        // It is one of them.
        let last = world.word(self.words[self.words.len() - 1]);
        Err(world.assume_same(self.argument, last).err().unwrap_or(Stop::Impossible))
    }
}

/// What the caller of an operation sees.
#[derive(Debug, Clone, Default)]
pub struct Outcome(Vec<(&'static str, Value)>);

/// A part of an outcome.
#[derive(Debug, Clone, Copy)]
pub enum Value {
    /// A word, such as the name of an error.
    Word(&'static str),
    /// An integer.
    Int(Int),
    /// A time, which tests do not compare: they cannot set it.
    Time(Int),
    /// A name.
    Name(Name),
}

impl Value {
    fn show(&self, world: &World) -> String {
        match *self {
            Self::Word(word) => word.to_owned(),
            Self::Int(int) | Self::Time(int) => int.show(world),
            Self::Name(name) => world.facts().label(name).to_owned(),
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
    /// The caller sees only that it is done.
    pub fn nothing() -> Self {
        Self::default()
    }

    /// The caller sees `value`.
    pub fn of(value: impl Into<Value>) -> Self {
        Self::nothing().and("result", value)
    }

    /// The caller sees `value` as well.
    pub fn and(mut self, field: &'static str, value: impl Into<Value>) -> Self {
        self.0.push((field, value.into()));
        self
    }

    /// The caller does not see `field`.
    pub fn without(mut self, field: &'static str) -> Self {
        self.0.retain(|(own, _)| *own != field);
        self
    }

    /// The first part by which a caller can tell the two apart, and what it is in each.
    pub(crate) fn difference(
        &self,
        other: &Self,
        world: &mut World,
    ) -> Result<Option<(&'static str, [String; 2])>, Stop> {
        for ((field, a), (other_field, b)) in self.0.iter().zip(&other.0) {
            let same = match (*a, *b) {
                _ if field != other_field => world.same_thing(field, other_field, false),
                (Value::Word(a), Value::Word(b)) => world.same_thing(a, b, a == b),
                (Value::Int(a), Value::Int(b)) | (Value::Time(a), Value::Time(b)) => {
                    world.same_int(a, b)?
                }
                (Value::Name(a), Value::Name(b)) => world.same_name(a, b)?,
                (a, b) => world.same_thing(&a.show(world), &b.show(world), false),
            };
            if !same {
                // Parts of two kinds of results: each tells what it is.
                let field = if field == other_field { field } else { "result" };
                return Ok(Some((field, [a.show(world), b.show(world)])));
            }
        }
        if self.0.len() != other.0.len() {
            let seen = [self.show(world), other.show(world)];
            world.same_thing(&seen[0], &seen[1], false);
            return Ok(Some(("result", seen)));
        }
        Ok(None)
    }

    /// What the caller sees, part by part.
    pub fn parts(&self) -> &[(&'static str, Value)] {
        &self.0
    }

    /// As a person reads it.
    pub fn show(&self, world: &World) -> String {
        let parts: Vec<String> = self
            .0
            .iter()
            .map(|(field, value)| match *field {
                "result" => value.show(world),
                field => format!("{field} {}", value.show(world)),
            })
            .collect();
        if parts.is_empty() { "nothing".to_owned() } else { parts.join(", ") }
    }
}
