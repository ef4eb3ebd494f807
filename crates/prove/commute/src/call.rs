//! Calls of operations, and their arguments.

use crate::execution::{Argument, Execution, Stop};
use crate::facts::{Int, Name, Question, WORD};
use crate::state::{Sort, Term};

/// One call of an operation. Its methods return the arguments.
pub struct Call<'w> {
    /// The execution, which answers the questions of the model.
    pub execution: &'w mut Execution,
    /// The label of the call: `a`, `b`, `c` …
    label: &'static str,
    nr: usize,
}

impl<'w> Call<'w> {
    pub(crate) fn new(execution: &'w mut Execution, label: &'static str, nr: usize) -> Self {
        Self { execution, label, nr }
    }

    /// The number of the call, from 0.
    pub fn nr(&self) -> usize {
        self.nr
    }

    /// The process that makes the call: 0 or 1. Without loss of generality, process 0 makes the
    /// first call.
    pub fn process(&mut self) -> Result<u8, Stop> {
        let process = u8::from(self.nr > 0 && self.fact("is in the other process")?);
        self.execution.calls.set_process(self.nr, process);
        Ok(process)
    }

    fn label(&self, name: &str) -> String {
        format!("{}.{name}", self.label)
    }

    /// An argument that is a name.
    pub fn term<S: Sort>(&mut self, name: &str) -> Term<S> {
        let label = self.label(name);
        let argument = self.execution.terms.name(S::NAME, &label);
        self.execution.calls.add_argument(self.nr, name, Argument::Name(argument));
        Term::new(argument)
    }

    /// An argument that is an integer in `range`.
    pub fn int(&mut self, name: &str, range: std::ops::RangeInclusive<i64>) -> Int {
        let label = self.label(name);
        let argument = self.execution.int(&label, Some(*range.start()), Some(*range.end()));
        self.execution.calls.add_argument(self.nr, name, Argument::Int(argument));
        argument
    }

    /// An argument that is a truth value.
    pub fn flag(&mut self, name: &str) -> Result<bool, Stop> {
        let flag = self.execution.terms.flag(&self.label(name));
        self.execution.calls.add_argument(self.nr, name, Argument::Flag(flag));
        self.execution.ask(Question::Is(flag))
    }

    /// An argument that is one of `words`; [`Word::is`] and [`Word::which`] ask which word it is.
    pub fn word(&mut self, name: &str, words: &'static [&'static str]) -> Word {
        let label = self.label(name);
        let argument = self.execution.terms.name(WORD, &label);
        self.execution.calls.add_argument(self.nr, name, Argument::Word(argument, words));
        Word { argument, words }
    }

    /// Asks whether a fact, such as `is in the other process`, is true of the call as a whole.
    pub fn fact(&mut self, what: &str) -> Result<bool, Stop> {
        let flag = self.execution.terms.flag(&format!("{} {what}", self.label));
        self.execution.ask(Question::Is(flag))
    }

    /// A name that is not in use yet, such as an inode number that the interface leaves open. Within one
    /// order of the calls, all calls get different names. Calls in two different orders may get the same
    /// name.
    pub fn fresh<S: Sort>(&mut self, name: &str) -> Result<Term<S>, Stop> {
        let label = self.label(name);
        Ok(Term::new(self.execution.fresh(S::NAME, &label)?))
    }

    /// An integer that the interface leaves open, such as a time. If possible, the explorer chooses
    /// it so that the orders agree.
    pub fn open_int(&mut self, name: &str) -> Int {
        let label = self.label(name);
        self.execution.open_int(&label, None, None)
    }

    /// An integer that the interface leaves open, except that two calls must not get the same integer. So
    /// each call gets a fixed value: `at` plus the number of the call.
    pub fn unused_int(&mut self, name: &str, at: i64) -> Int {
        let (label, at) = (self.label(name), at + self.nr as i64);
        self.execution.open_int(&label, Some(at), Some(at))
    }
}

/// An argument that is one of several words.
#[derive(Debug, Clone, Copy)]
pub struct Word {
    argument: Name,
    words: &'static [&'static str],
}

impl Word {
    /// Whether the argument is `word`.
    ///
    /// # Panics
    ///
    /// If `word` is not one of the words of the argument.
    pub fn is(self, word: &'static str, execution: &mut Execution) -> Result<bool, Stop> {
        assert!(self.words.contains(&word), "{word} is not one of {:?}", self.words);
        let constant = execution.terms.word(word);
        execution.same_name(self.argument, constant)
    }

    /// Returns the word. Asks about each word in turn until the answer is yes.
    pub fn which(self, execution: &mut Execution) -> Result<&'static str, Stop> {
        for word in self.words {
            if self.is(word, execution)? {
                return Ok(word);
            }
        }
        // The argument equals none of the words, so the path is infeasible. To record this in the
        // certificate, assume that the argument equals the last word: the assumption contradicts an earlier
        // answer, so it fails.
        let last = execution.terms.word(self.words[self.words.len() - 1]);
        let is_last = Question::Same(self.argument, last);
        Err(execution.assume(&is_last, true).err().unwrap_or(Stop::Infeasible))
    }
}
