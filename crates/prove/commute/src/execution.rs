//! One execution of a model: what has been asked, what was answered, and the initial state as far
//! as anyone has looked at it.

use std::any::Any;
use std::collections::HashMap;
use std::rc::Rc;

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::certificate::{Certificate, Claim};
use crate::facts::{Facts, Flag, Int, Name, Question};
use crate::literal::{Literal, show_sum};
use crate::state::State;
use crate::watch::Progress;

/// Why an execution came to no end. Models pass it on with `?`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Stop {
    /// More questions than allowed.
    TooDeep,
    /// What the model took for granted does not hold here: no situation at all.
    Infeasible,
    /// What the model took for granted holds of no value of an open integer for which the orders
    /// agreed so far: they do not.
    NoChoice {
        /// In how many comparisons something had been chosen before the one that chose it.
        choice: usize,
    },
    /// On replay the model asked something else than before.
    NotDeterministic {
        /// What it asked first.
        before: String,
        /// What it asks now.
        now: String,
    },
}

impl std::fmt::Display for Stop {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::TooDeep => f.write_str("it asks more questions than allowed"),
            Self::Infeasible => f.write_str("one of its assumptions does not hold"),
            Self::NoChoice { .. } => f.write_str("no choice makes the orders agree"),
            Self::NotDeterministic { before, now } => write!(
                f,
                "the model is not deterministic: it asked {now} where it had asked {before} before"
            ),
        }
    }
}

/// An answered question, and how it reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// With its terms as this execution numbered them.
    pub question: Question,
    /// The answer taken.
    pub answer: bool,
    /// The question as it reads in every execution.
    pub literal: Literal,
}

impl Decision {
    /// The formula that holds.
    pub fn show(&self) -> String {
        self.literal.show(self.answer)
    }
}

/// What a call was given.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Argument {
    Name(Name),
    Int(Int),
    Flag(Flag),
    /// One of these words.
    Word(Name, &'static [&'static str]),
}

/// One execution. All orders of the operations run in it, one after the other, and share what is
/// known of the initial state and of the arguments.
pub struct Execution {
    facts: Facts,
    /// Answers to give first: they lead to the part of the tree that is this execution's.
    script: Rc<[Decision]>,
    decisions: Vec<Decision>,
    most_questions: usize,
    /// While results and states are compared, what was left open is chosen so that they agree.
    comparing: bool,
    /// In how many comparisons something was chosen, and whether it was in the last one.
    choices: (usize, bool),
    progress: Arc<Progress>,
    /// New names that the run has which is under way.
    fresh_in_run: Vec<Name>,
    /// What was taken for granted.
    assumed: Vec<(Literal, bool)>,
    /// What was compared.
    claims: Vec<Claim>,
    /// By call: the process it is made in, and its arguments in the order in which they were asked
    /// for.
    calls: Vec<(u8, Vec<(String, Argument)>)>,
    names: HashMap<String, Name>,
    ints: HashMap<String, Int>,
    flags: HashMap<String, Flag>,
    /// The initial content of each map, as far as it has been looked at.
    maps: HashMap<String, Box<dyn Any>>,
    lists: HashMap<String, Vec<Int>>,
}

impl Execution {
    /// An execution that first gives the answers of `script`.
    pub(crate) fn new(
        script: Rc<[Decision]>,
        most_questions: usize,
        progress: Arc<Progress>,
    ) -> Self {
        progress.start();
        Self {
            progress,
            fresh_in_run: Vec::new(),
            assumed: Vec::new(),
            claims: Vec::new(),
            calls: Vec::new(),
            facts: Facts::default(),
            script,
            decisions: Vec::new(),
            most_questions,
            comparing: false,
            choices: (0, false),
            names: HashMap::new(),
            ints: HashMap::new(),
            flags: HashMap::new(),
            maps: HashMap::new(),
            lists: HashMap::new(),
        }
    }

    /// What has been decided.
    pub fn decisions(&self) -> &[Decision] {
        &self.decisions
    }

    /// What is known.
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// The answer, which is decided here unless it follows from what is known.
    pub fn ask(&mut self, question: Question) -> Result<bool, Stop> {
        if let Some(known) = self.facts.answer(&question) {
            return Ok(known);
        }
        let nr = self.decisions.len();
        if nr >= self.most_questions {
            return Err(Stop::TooDeep);
        }
        let answer = match self.script.get(nr) {
            None => true,
            Some(before) if before.question == question => before.answer,
            Some(before) => {
                return Err(Stop::NotDeterministic {
                    before: before.show(),
                    now: self.facts.show(&question, before.answer),
                });
            }
        };
        let literal = self.facts.literal(&question);
        let possible = self.facts.assume(&question, answer);
        debug_assert!(possible, "the answer was open");
        self.progress.answered(&literal, answer);
        self.decisions.push(Decision { question, answer, literal });
        Ok(answer)
    }

    /// Whether two names are equal.
    pub fn same_name(&mut self, a: Name, b: Name) -> Result<bool, Stop> {
        if self.comparing {
            let [label_a, label_b] = [a, b].map(|name| self.facts.own_label(name).to_owned());
            self.claim(Claim::Names(label_a, label_b));
            if self.facts.names_can_agree(a, b) {
                self.facts.agree_names(a, b, self.choices.0);
                self.choices.1 = true;
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
        if self.comparing {
            let Literal::AtMost(x, plus, y) = self.facts.literal(&Question::AtMost(a, b)) else {
                unreachable!("the literal of its question");
            };
            self.claim(Claim::Ints(x, plus, y));
            if self.facts.can_agree(a, b) {
                while let Some(wanted) = self.facts.wanted_by(&[(a, b), (b, a)]) {
                    if !self.ask(wanted)? {
                        return Ok(false);
                    }
                }
                self.facts.agree(a, b, self.choices.0);
                self.choices.1 = true;
                return Ok(true);
            }
        }
        Ok(self.at_most(a, b)? && self.at_most(b, a)?)
    }

    /// Whether a flag is set.
    pub fn is(&mut self, flag: Flag) -> Result<bool, Stop> {
        self.ask(Question::Is(flag))
    }

    /// Which number of `range` an integer is: asked one by one. Others are no situations.
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

    /// Takes `a` ≤ `b` for granted: situations where it is not so are none. But of what has been
    /// chosen so that orders agree, another choice may have to be made, so that they do not.
    pub fn assume_at_most(&mut self, a: impl Into<Int>, b: impl Into<Int>) -> Result<(), Stop> {
        let (a, b) = (a.into(), b.into());
        let question = Question::AtMost(a, b);
        let choice = self.facts.choice(a, b);
        if choice.is_some() {
            while self.facts.answer(&question).is_none()
                && let Some(wanted) = self.facts.wanted_by(&[(a, b)])
            {
                self.ask(wanted)?;
            }
        }
        match (self.take_for_granted(question, true), choice) {
            (Err(Stop::Infeasible), Some(choice)) => Err(Stop::NoChoice { choice }),
            (taken, _) => taken,
        }
    }

    /// Takes for granted that two names differ: situations where they are equal are none.
    pub fn assume_different(&mut self, a: Name, b: Name) -> Result<(), Stop> {
        self.take_for_granted(Question::Same(a, b), false)
    }

    /// Takes for granted that two names are equal: situations where they differ are none.
    pub(crate) fn assume_same(&mut self, a: Name, b: Name) -> Result<(), Stop> {
        self.take_for_granted(Question::Same(a, b), true)
    }

    fn take_for_granted(&mut self, question: Question, answer: bool) -> Result<(), Stop> {
        self.assumed.push((self.facts.literal(&question), answer));
        if self.facts.assume(&question, answer) { Ok(()) } else { Err(Stop::Infeasible) }
    }

    /// The name called `label`: the same in all orders.
    pub fn name(&mut self, sort: &'static str, label: &str) -> Name {
        let facts = &mut self.facts;
        *self.names.entry(label.to_owned()).or_insert_with(|| facts.name(sort, label))
    }

    /// The word `label`, which is no other word.
    pub fn word(&mut self, label: &'static str) -> Name {
        let facts = &mut self.facts;
        *self.names.entry(label.to_owned()).or_insert_with(|| facts.word(label))
    }

    /// The name called `label` that equals no other.
    ///
    /// Two that one run has are of two things; two of different orders may be chosen to be one.
    pub fn fresh(&mut self, sort: &'static str, label: &str) -> Result<Name, Stop> {
        let facts = &mut self.facts;
        let name = *self.names.entry(label.to_owned()).or_insert_with(|| facts.fresh(sort, label));
        if self.fresh_in_run.contains(&name) {
            return Ok(name);
        }
        for other in self.fresh_in_run.clone() {
            if self.facts.sort(other) != sort {
                continue;
            }
            if let Some(choice) = self.facts.choice_of_names(name, other) {
                return Err(Stop::NoChoice { choice });
            }
            let apart = self.facts.literal(&Question::Same(name, other));
            if !self.assumed.contains(&(apart.clone(), false)) {
                self.facts.keep_apart(name, other);
                self.assumed.push((apart, false));
            }
        }
        self.fresh_in_run.push(name);
        Ok(name)
    }

    /// The new names that the run has, which are exchanged for those of another run.
    pub(crate) fn exchange_fresh(&mut self, names: Vec<Name>) -> Vec<Name> {
        std::mem::replace(&mut self.fresh_in_run, names)
    }

    /// The name called `label` wherever it is met: what new memory is full of.
    pub fn constant(&mut self, sort: &'static str, label: &str) -> Name {
        let facts = &mut self.facts;
        *self.names.entry(label.to_owned()).or_insert_with(|| facts.constant(sort, label))
    }

    /// The integer called `label`, between `least` and `most`.
    pub fn int(&mut self, label: &str, least: Option<i64>, most: Option<i64>) -> Int {
        if let Some(&known) = self.ints.get(label) {
            return known;
        }
        let int = self.facts.int(label, least, most);
        self.ints.insert(label.to_owned(), int);
        let above = least.map(|least| Question::AtMost(least.into(), int));
        let below = most.map(|most| Question::AtMost(int, most.into()));
        for bound in above.into_iter().chain(below) {
            self.assumed.push((self.facts.literal(&bound), true));
        }
        int
    }

    /// An integer called `label` that the interface leaves open.
    pub fn open_int(&mut self, label: &str, least: Option<i64>, most: Option<i64>) -> Int {
        let int = self.int(label, least, most);
        self.facts.leave_open(int);
        int
    }

    /// The flag called `label`.
    pub fn flag(&mut self, label: &str) -> Flag {
        let facts = &mut self.facts;
        *self.flags.entry(label.to_owned()).or_insert_with(|| facts.flag(label))
    }

    /// Runs a comparison of results or states, in which what was left open may be chosen.
    pub(crate) fn compare<T>(&mut self, compare: impl FnOnce(&mut Self) -> T) -> T {
        self.comparing = true;
        let result = compare(self);
        self.comparing = false;
        self.choices = (self.choices.0 + usize::from(self.choices.1), false);
        result
    }

    /// In how many comparisons something was chosen.
    pub(crate) fn choices(&self) -> usize {
        self.choices.0
    }

    /// Runs a search: what is not found where it is looked for makes no difference.
    pub fn search<T>(&mut self, search: impl FnOnce(&mut Self) -> T) -> T {
        let comparing = std::mem::replace(&mut self.comparing, false);
        let result = search(self);
        self.comparing = comparing;
        result
    }

    /// That two things, in words, are the same or are not; says so where they are compared.
    pub fn same_thing(&mut self, a: &str, b: &str, same: bool) -> bool {
        if self.comparing && !same {
            self.claim(Claim::Things(a.to_owned(), b.to_owned()));
        }
        same
    }

    /// Whether two values are both there, or neither.
    pub fn same_presence(&mut self, a: bool, b: bool) -> bool {
        let word = |there: bool| if there { "something" } else { "nothing" };
        self.same_thing(word(a), word(b), a == b)
    }

    fn claim(&mut self, claim: Claim) {
        if !self.claims.contains(&claim) {
            self.claims.push(claim);
        }
    }

    /// The two sides of what was compared last.
    pub(crate) fn last_claim(&self) -> [String; 2] {
        match self.claims.last() {
            None => Default::default(),
            Some(Claim::Names(a, b) | Claim::Things(a, b)) => [a.clone(), b.clone()],
            Some(Claim::Ints(a, plus, b)) => [show_sum(a, *plus), show_sum(b, 0)],
        }
    }

    /// What was taken for granted, what was compared, and what was open.
    pub(crate) fn certificate(&self) -> Certificate {
        let (fresh, open) = self.facts.at_will();
        let agreed = self.facts.agreed_names();
        Certificate {
            assumed: self.assumed.clone(),
            fresh,
            agreed,
            open,
            claims: self.claims.clone(),
        }
    }

    /// That call `nr` is made in `process`.
    pub(crate) fn called_in(&mut self, nr: usize, process: u8) {
        self.call(nr).0 = process;
    }

    /// That call `nr` was given `argument`.
    pub(crate) fn given(&mut self, nr: usize, name: &str, argument: Argument) {
        let arguments = &mut self.call(nr).1;
        if arguments.iter().all(|(known, _)| known != name) {
            arguments.push((name.to_owned(), argument));
        }
    }

    fn call(&mut self, nr: usize) -> &mut (u8, Vec<(String, Argument)>) {
        if self.calls.len() <= nr {
            self.calls.resize_with(nr + 1, Default::default);
        }
        &mut self.calls[nr]
    }

    /// The process of call `nr`, and its arguments.
    pub(crate) fn call_given(&self, nr: usize) -> (u8, &[(String, Argument)]) {
        self.calls.get(nr).map_or((0, &[]), |(process, arguments)| (*process, arguments))
    }

    /// What is known of the initial content of a map.
    pub(crate) fn known<K: State, V: State>(&self, map: &str) -> Vec<(K, Option<V>)> {
        match self.maps.get(map) {
            Some(entries) => {
                entries.downcast_ref::<Vec<(K, Option<V>)>>().expect("one type a map").clone()
            }
            None => Vec::new(),
        }
    }

    fn learn<K: State, V: State>(&mut self, map: &str, key: &K, value: Option<V>) {
        let entries = self.maps.entry(map.to_owned());
        let entries = entries.or_insert_with(|| Box::new(Vec::<(K, Option<V>)>::new()));
        let entries = entries.downcast_mut::<Vec<(K, Option<V>)>>().expect("one type a map");
        entries.push((key.clone(), value));
    }

    /// See [`crate::Map::know`].
    pub(crate) fn know<K: State, V: State>(
        &mut self,
        map: &str,
        key: &K,
        present: bool,
    ) -> Result<(), Stop> {
        for (other, value) in self.known::<K, V>(map) {
            if other.same(key, self)? {
                if value.is_some() == present {
                    return Ok(());
                }
                // Says what was taken for granted.
                let (_, has) = entry(map, &other.show(self));
                let flag = self.flag(&has);
                let _ = self.take_for_granted(Question::Is(flag), present);
                return Err(Stop::Infeasible);
            }
        }
        let (label, has) = entry(map, &key.show(self));
        let flag = self.flag(&has);
        self.take_for_granted(Question::Is(flag), present)?;
        let value = present.then(|| V::unknown(self, &label));
        self.learn(map, key, value);
        Ok(())
    }

    /// The initial value at `key` of a map that has one for every key.
    pub fn first<K: State, V: State>(&mut self, map: &str, key: &K) -> Result<V, Stop> {
        for (other, value) in self.known::<K, V>(map) {
            if other.same(key, self)? {
                return Ok(value.expect("every key has a value"));
            }
        }
        let label = format!("{map}[{}]", key.show(self));
        let value = V::unknown(self, &label);
        self.learn(map, key, Some(value.clone()));
        Ok(value)
    }

    /// Integers that have been found out, shared by all orders.
    pub fn list(&self, label: &str) -> Vec<Int> {
        self.lists.get(label).cloned().unwrap_or_default()
    }

    /// Adds to [`Execution::list`].
    pub fn append(&mut self, label: &str, int: Int) {
        self.lists.entry(label.to_owned()).or_default().push(int);
    }

    /// Says that `holder` is one of those whom `counter` counts in the initial state: it is at
    /// least as great as the number of different ones that are known.
    pub fn witness<H: State>(&mut self, counter: Int, holder: &H) -> Result<(), Stop> {
        let label = format!("holders of {}", self.facts.show_int(counter));
        let known = self.known::<H, ()>(&label);
        for (other, _) in &known {
            if other.same(holder, self)? {
                return Ok(());
            }
        }
        self.learn(&label, holder, Some(()));
        self.assume_at_most(known.len() as i64 + 1, counter)
    }

    /// The initial value of a map at `key`; looked at for the first time, either may be the case.
    pub(crate) fn initial<K: State, V: State>(
        &mut self,
        map: &str,
        key: &K,
    ) -> Result<Option<V>, Stop> {
        for (other, value) in self.known::<K, V>(map) {
            if other.same(key, self)? {
                return Ok(value);
            }
        }
        let (label, has) = entry(map, &key.show(self));
        let flag = self.flag(&has);
        let value = if self.is(flag)? { Some(V::unknown(self, &label)) } else { None };
        self.learn(map, key, value.clone());
        Ok(value)
    }
}

/// What the value of a map at a key is called, and that there is one.
fn entry(map: &str, key: &str) -> (String, String) {
    (format!("{map}[{key}]"), format!("{map} has {key}"))
}
