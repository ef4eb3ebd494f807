//! Calls of operations, and their arguments.

use crate::execution::{Argument, Execution, Stop};
use crate::exploration::LABELS;
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

    /// The process that makes the call, of `processes` processes. Without loss of generality, process 0 makes
    /// the first call. Each later call is made either by a process that makes an earlier call, or by the
    /// lowest process that makes no earlier call.
    pub fn process(&mut self, processes: u8) -> Result<u8, Stop> {
        // The answers below depend on the earlier calls whose processes are known by now, so the process of a
        // call is determined only once.
        if let Some(known) = self.execution.calls.get(self.nr).process {
            return Ok(known);
        }
        let mut process = 0;
        while let Some(first) = self.execution.calls.first_in(process, self.nr)
            && process + 1 < processes
        {
            let is_elsewhere = match self.nr {
                1 => self.fact("is in the other process")?,
                _ => self.fact(&format!("is in another process than {}", LABELS[first]))?,
            };
            if !is_elsewhere {
                break;
            }
            process += 1;
        }
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::ops::ControlFlow;

    use crate::exploration::Limits;
    use crate::generate::Wanted;
    use crate::model::Model;
    use crate::models::posix::posix;
    use crate::models::processes::processes;

    /// For each test of these calls, the processes that make the calls.
    fn processes_of(model: &dyn Model, names: &[&str]) -> BTreeSet<Vec<u8>> {
        let operations = model.operations();
        let nr = |name: &&str| operations.iter().position(|(other, _)| other == name).unwrap();
        let set: Vec<usize> = names.iter().map(nr).collect();
        let mut found = BTreeSet::new();
        let wanted = Wanted { patterns: 1, differing: true };
        let take = &mut |test: crate::Test| {
            found.insert(test.calls.iter().map(|call| call.process).collect());
            ControlFlow::Continue(())
        };
        model.generate(&set, &Limits::default(), &wanted, take).unwrap();
        found
    }

    #[test]
    fn calls_are_divided_among_processes_in_every_way() {
        let posix = posix();
        assert_eq!(processes_of(&posix, &["close"]), [vec![0]].into());
        assert_eq!(processes_of(&posix, &["close"; 2]), [vec![0, 0], vec![0, 1]].into());
        let three = [[0, 0, 0], [0, 0, 1], [0, 1, 0], [0, 1, 1], [0, 1, 2]];
        assert_eq!(processes_of(&posix, &["close"; 3]), three.map(Vec::from).into());
        // The model has two processes, so the third call is in one of them.
        let of_two = processes_of(&processes(), &["close"; 3]);
        assert_eq!(of_two, [[0, 0, 0], [0, 0, 1], [0, 1, 0], [0, 1, 1]].map(Vec::from).into());
    }

    #[test]
    fn a_call_that_does_not_depend_on_its_process_is_in_the_first_process() {
        let posix = posix();
        let both = [vec![0, 0], vec![0, 1]].into();
        assert_eq!(processes_of(&posix, &["stat", "close"]), both);
        let all = [vec![0, 0, 0], vec![0, 0, 1]].into();
        assert_eq!(processes_of(&posix, &["stat", "unlink", "close"]), all);
    }
}
