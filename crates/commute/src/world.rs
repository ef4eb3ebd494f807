//! One execution of a model: what has been asked, what was answered, and the initial state as far
//! as anyone has looked at it.

use std::any::Any;
use std::collections::HashMap;
use std::rc::Rc;

use crate::facts::{Facts, Flag, Int, Literal, Name, Question};
use crate::state::State;

/// Why an execution came to no end. Models pass it on with `?`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stop {
    /// More questions than allowed.
    TooDeep,
    /// What the model took for granted does not hold here: no situation at all.
    Impossible,
    /// On replay the model asked something else than before.
    NotDeterministic {
        /// What it asked first.
        before: String,
        /// What it asks now.
        now: String,
    },
}

/// An answered question, and how it reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answered {
    /// With its terms as this execution numbered them.
    pub question: Question,
    /// The answer taken.
    pub answer: bool,
    /// The question as it reads in every execution.
    pub literal: Literal,
    /// The formula that holds.
    pub formula: String,
}

/// One execution. All orders of the operations run in it, one after the other, and share what is
/// known of the initial state and of the arguments.
pub struct World {
    facts: Facts,
    /// Answers to give first: they lead to the part of the tree that is this execution's.
    script: Rc<[Answered]>,
    answered: Vec<Answered>,
    most_questions: usize,
    /// While results and states are compared, what was left open is chosen so that they agree.
    comparing: bool,
    names: HashMap<String, Name>,
    ints: HashMap<String, Int>,
    flags: HashMap<String, Flag>,
    /// The initial content of each map, as far as it has been looked at.
    maps: HashMap<String, Box<dyn Any>>,
    lists: HashMap<String, Vec<Int>>,
}

impl World {
    /// An execution that first gives the answers of `script`.
    pub fn new(script: Rc<[Answered]>, most_questions: usize) -> Self {
        Self {
            facts: Facts::default(),
            script,
            answered: Vec::new(),
            most_questions,
            comparing: false,
            names: HashMap::new(),
            ints: HashMap::new(),
            flags: HashMap::new(),
            maps: HashMap::new(),
            lists: HashMap::new(),
        }
    }

    /// What has been decided.
    pub fn answered(&self) -> &[Answered] {
        &self.answered
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
        let nr = self.answered.len();
        if nr >= self.most_questions {
            return Err(Stop::TooDeep);
        }
        let answer = match self.script.get(nr) {
            None => true,
            Some(before) if before.question == question => before.answer,
            Some(before) => {
                return Err(Stop::NotDeterministic {
                    before: before.formula.clone(),
                    now: self.facts.show(&question, before.answer),
                });
            }
        };
        let formula = self.facts.show(&question, answer);
        let literal = self.facts.literal(&question);
        let possible = self.facts.assume(&question, answer);
        debug_assert!(possible, "the answer was open");
        self.answered.push(Answered { question, answer, literal, formula });
        Ok(answer)
    }

    /// Whether two names are equal.
    pub fn same_name(&mut self, a: Name, b: Name) -> Result<bool, Stop> {
        self.ask(Question::Same(a, b))
    }

    /// Whether `a` ≤ `b`.
    pub fn at_most(&mut self, a: impl Into<Int>, b: impl Into<Int>) -> Result<bool, Stop> {
        self.ask(Question::AtMost(a.into(), b.into()))
    }

    /// Whether two integers are equal.
    pub fn same_int(&mut self, a: impl Into<Int>, b: impl Into<Int>) -> Result<bool, Stop> {
        let (a, b) = (a.into(), b.into());
        if self.comparing && self.facts.agree_ints(a, b) {
            return Ok(true);
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
        Err(Stop::Impossible)
    }

    /// Takes `a` ≤ `b` for granted: situations where it is not so are none.
    pub fn assume_at_most(&mut self, a: impl Into<Int>, b: impl Into<Int>) -> Result<(), Stop> {
        let question = Question::AtMost(a.into(), b.into());
        if self.facts.assume(&question, true) { Ok(()) } else { Err(Stop::Impossible) }
    }

    /// The name called `label`: the same in all orders.
    pub fn name(&mut self, sort: &'static str, label: &str) -> Name {
        let facts = &mut self.facts;
        *self.names.entry(label.to_owned()).or_insert_with(|| facts.name(sort, label))
    }

    /// The name called `label` that equals no other.
    pub fn fresh(&mut self, sort: &'static str, label: &str) -> Name {
        let facts = &mut self.facts;
        *self.names.entry(label.to_owned()).or_insert_with(|| facts.fresh(sort, label))
    }

    /// The integer called `label`, between `least` and `most`.
    pub fn int(&mut self, label: &str, least: Option<i64>, most: Option<i64>) -> Int {
        let facts = &mut self.facts;
        *self.ints.entry(label.to_owned()).or_insert_with(|| facts.int(label, least, most))
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
        result
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
                return if value.is_some() == present { Ok(()) } else { Err(Stop::Impossible) };
            }
        }
        let (label, has) = entry(map, &key.show(self));
        let flag = self.flag(&has);
        if !self.facts.assume(&Question::Is(flag), present) {
            return Err(Stop::Impossible);
        }
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

    /// Adds to [`World::list`].
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
