//! Calls of operations, and their arguments.

use crate::facts::{Int, Name, WORD};
use crate::state::{Sort, Term};
use crate::world::{Argument, Stop, World};

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
