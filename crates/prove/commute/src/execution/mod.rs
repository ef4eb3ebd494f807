//! One execution of a model. The execution answers the questions that the model asks.
//!
//! An execution has four parts: the terms and the facts known about them, the path of decisions,
//! the known part of the initial state (the heap), and the certificate, which records assumptions
//! and comparisons.

mod calls;
mod heap;
mod path;

use std::rc::Rc;
use std::sync::Arc;

pub(crate) use calls::Argument;
pub use path::{Decision, Stop};

use calls::Calls;
use heap::Heap;
use path::Path;

use crate::certificate::{Certificate, Claim};
use crate::facts::{Facts, Int, Name, Question};
use crate::literal::Literal;
use crate::terms::Terms;
use crate::watch::Progress;

/// One execution, which runs the operations in every order, one order after the other. All orders
/// share the arguments and the known part of the initial state.
pub struct Execution {
    pub(crate) terms: Terms,
    path: Path,
    pub(crate) heap: Heap,
    pub(crate) calls: Calls,
    certificate: Certificate,
    /// Whether results or states are being compared. Values are chosen only during a comparison.
    is_comparing: bool,
    /// The number of comparisons that have chosen a value, not counting the current comparison.
    choices: usize,
    /// Whether the current comparison has chosen a value.
    has_chosen: bool,
    /// The fresh names of the current order.
    fresh_in_run: Vec<Name>,
}

impl Execution {
    /// An execution that begins with the decisions of `script`.
    pub(crate) fn new(
        script: Rc<[Decision]>,
        max_questions: usize,
        progress: Arc<Progress>,
    ) -> Self {
        Self {
            terms: Terms::default(),
            path: Path::new(script, max_questions, progress),
            heap: Heap::default(),
            calls: Calls::default(),
            certificate: Certificate::default(),
            is_comparing: false,
            choices: 0,
            has_chosen: false,
            fresh_in_run: Vec::new(),
        }
    }

    /// The decisions so far.
    pub fn decisions(&self) -> &[Decision] {
        self.path.decisions()
    }

    /// The facts that are known about the terms.
    pub fn facts(&self) -> &Facts {
        &self.terms.facts
    }

    /// Answers a question. If the facts do not imply the answer, a decision is added to the path.
    pub fn ask(&mut self, question: Question) -> Result<bool, Stop> {
        self.path.decide(question, &mut self.terms.facts)
    }

    /// Whether two names are equal.
    pub fn same_name(&mut self, a: Name, b: Name) -> Result<bool, Stop> {
        if self.is_comparing {
            let facts = &mut self.terms.facts;
            let [label_a, label_b] = [a, b].map(|name| facts.own_label(name).to_owned());
            self.certificate.claim(Claim::Names(label_a, label_b));
            if facts.names_can_agree(a, b) {
                facts.agree_names(a, b, self.choices);
                self.has_chosen = true;
                return Ok(true);
            }
        }
        self.ask(Question::Same(a, b))
    }

    /// Whether `a` ≤ `b`.
    pub fn at_most(&mut self, a: impl Into<Int>, b: impl Into<Int>) -> Result<bool, Stop> {
        self.ask(Question::AtMost(a.into(), b.into()))
    }

    /// Whether two integers are equal.
    pub fn same_int(&mut self, a: impl Into<Int>, b: impl Into<Int>) -> Result<bool, Stop> {
        let (a, b) = (a.into(), b.into());
        if self.is_comparing {
            let Literal::AtMost(x, plus, y) = self.facts().literal(&Question::AtMost(a, b)) else {
                unreachable!("the literal of its question");
            };
            self.certificate.claim(Claim::Ints(x, plus, y));
            if self.facts().can_agree(a, b) {
                while let Some(implied) = self.facts().implied_by(&[(a, b), (b, a)]) {
                    if !self.ask(implied)? {
                        return Ok(false);
                    }
                }
                self.terms.facts.agree(a, b, self.choices);
                self.has_chosen = true;
                return Ok(true);
            }
        }
        Ok(self.at_most(a, b)? && self.at_most(b, a)?)
    }

    /// The value of an integer. Asks about each number of `range` in turn until the value is known.
    /// Assumes that the value is in the range.
    pub fn concrete(
        &mut self,
        int: Int,
        range: std::ops::RangeInclusive<i64>,
    ) -> Result<i64, Stop> {
        self.assume_at_most(*range.start(), int)?;
        self.assume_at_most(int, *range.end())?;
        for n in range.clone() {
            if self.at_most(int, n)? {
                return Ok(n);
            }
        }
        Err(Stop::Infeasible)
    }

    /// Assumes `a` ≤ `b`. If the assumption is false, the path is infeasible. There is one exception: an
    /// earlier comparison may have chosen the value of `a` or `b` to make the orders agree. Then no choice
    /// makes the orders agree, and the execution defines a situation in which they differ.
    pub fn assume_at_most(&mut self, a: impl Into<Int>, b: impl Into<Int>) -> Result<(), Stop> {
        let (a, b) = (a.into(), b.into());
        let question = Question::AtMost(a, b);
        let choice = self.facts().choice(a, b);
        if choice.is_some() {
            while self.facts().answer(&question).is_none()
                && let Some(implied) = self.facts().implied_by(&[(a, b)])
            {
                self.ask(implied)?;
            }
        }
        match (self.assume(&question, true), choice) {
            (Err(Stop::Infeasible), Some(choice)) => Err(Stop::NoChoice { choice }),
            (assumed, _) => assumed,
        }
    }

    /// Assumes that two names differ. If the names are equal, the path is infeasible.
    pub fn assume_different(&mut self, a: Name, b: Name) -> Result<(), Stop> {
        self.assume(&Question::Same(a, b), false)
    }

    /// Assumes an answer. If the facts contradict the answer, the path is infeasible.
    pub(crate) fn assume(&mut self, question: &Question, answer: bool) -> Result<(), Stop> {
        let facts = &mut self.terms.facts;
        self.certificate.assumed.push((facts.literal(question), answer));
        if facts.assume(question, answer) { Ok(()) } else { Err(Stop::Infeasible) }
    }

    /// The fresh name called `label`. This name differs from all names of the initial state and of arguments.
    ///
    /// Two fresh names of one order differ. Two fresh names of different orders may be chosen to be
    /// equal.
    pub(crate) fn fresh(&mut self, sort: &'static str, label: &str) -> Result<Name, Stop> {
        let name = self.terms.fresh(sort, label);
        if self.fresh_in_run.contains(&name) {
            return Ok(name);
        }
        let facts = &mut self.terms.facts;
        for &other in &self.fresh_in_run {
            if facts.sort(other) != sort {
                continue;
            }
            if let Some(choice) = facts.choice_of_names(name, other) {
                return Err(Stop::NoChoice { choice });
            }
            let same = facts.literal(&Question::Same(name, other));
            if !self.certificate.has_assumed(&same, false) {
                facts.keep_apart(name, other);
                self.certificate.assumed.push((same, false));
            }
        }
        self.fresh_in_run.push(name);
        Ok(name)
    }

    /// Replaces the fresh names of the current order and returns the previous ones.
    pub(crate) fn replace_fresh(&mut self, names: Vec<Name>) -> Vec<Name> {
        std::mem::replace(&mut self.fresh_in_run, names)
    }

    /// The integer called `label`, between `min` and `max`.
    pub fn int(&mut self, label: &str, min: Option<i64>, max: Option<i64>) -> Int {
        let (int, is_new) = self.terms.int(label, min, max);
        if is_new {
            let above = min.map(|min| Question::AtMost(min.into(), int));
            let below = max.map(|max| Question::AtMost(int, max.into()));
            for bound in above.into_iter().chain(below) {
                self.certificate.assumed.push((self.terms.facts.literal(&bound), true));
            }
        }
        int
    }

    /// An integer called `label` that the interface leaves open.
    pub fn open_int(&mut self, label: &str, min: Option<i64>, max: Option<i64>) -> Int {
        let int = self.int(label, min, max);
        self.terms.facts.leave_open(int);
        int
    }

    /// Runs a comparison of results or states. During the comparison, values that the interface leaves open
    /// may be chosen so that the two sides agree.
    pub(crate) fn compare<T>(&mut self, compare: impl FnOnce(&mut Self) -> T) -> T {
        self.is_comparing = true;
        let result = compare(self);
        self.is_comparing = false;
        self.choices += usize::from(std::mem::take(&mut self.has_chosen));
        result
    }

    /// The number of comparisons that have chosen a value.
    pub(crate) fn choices(&self) -> usize {
        self.choices
    }

    /// Runs a search, which compares a key with the keys of entries, one after another. During the search,
    /// comparisons ask questions and choose no values, even while states are compared. Suppose that the
    /// interface leaves the key open. If comparisons chose values, the explorer would choose the key of the
    /// first entry, and would miss the case in which the open key equals the key of a later entry.
    pub fn search<T>(&mut self, search: impl FnOnce(&mut Self) -> T) -> T {
        let is_comparing = std::mem::replace(&mut self.is_comparing, false);
        let result = search(self);
        self.is_comparing = is_comparing;
        result
    }

    /// Returns `same`: whether the two values that `a` and `b` describe are equal. If `same` is false during
    /// a comparison of results or states, records the two descriptions as a difference.
    pub fn same_thing(&mut self, a: &str, b: &str, same: bool) -> bool {
        if self.is_comparing && !same {
            self.certificate.claim(Claim::Things(a.to_owned(), b.to_owned()));
        }
        same
    }

    /// Whether two values are both present or both absent.
    pub fn same_presence(&mut self, a: bool, b: bool) -> bool {
        let word = |is_present: bool| if is_present { "something" } else { "nothing" };
        self.same_thing(word(a), word(b), a == b)
    }

    /// The two sides of the last comparison.
    pub(crate) fn last_claim(&self) -> [String; 2] {
        self.certificate.last_claim()
    }

    /// The assumptions and comparisons so far, and the names and integers that may be chosen freely.
    pub(crate) fn certificate(&self) -> Certificate {
        let (fresh, open) = self.facts().fresh_and_open();
        let agreed = self.facts().agreed_names();
        Certificate { fresh, agreed, open, ..self.certificate.clone() }
    }
}
