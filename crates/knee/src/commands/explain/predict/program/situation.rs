//! What an operation of a program is called with, and in which state.
//!
//! A model knows for which states and arguments an operation behaves the same: its situations. Each has a test with a few
//! names, such as `get` of `key0` in a map in which `key0` has a value. The tasks of a prediction use many keys, so the names
//! of the test are numbered anew for each key.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use anyhow::ensure;
use knee_commute::{Limits, Model, Test, TestCall, Wanted};
use knee_host::suggest::{nearest, question};
use serde_json::Value;

use crate::exit::{bail_usage, usage};

/// The most situations of an operation to look at.
const MOST: usize = 10_000;
/// Situations that a message lists.
const LISTED: usize = 8;

/// A situation of an operation.
pub(super) struct Situation {
    test: Test,
}

impl Situation {
    /// The situation that a word such as `get` or `get/1.0` names: the test with this ID, or the one in which the operation
    /// probably does the most. Operations that return one of the model's words, such as `none` or `full`, often fail then.
    /// If all do, the smallest state is taken, and otherwise the largest one, in which keys have values.
    pub(super) fn find(model: &dyn Model, word: &str) -> anyhow::Result<Self> {
        let name = word.split('/').next().unwrap_or_default();
        let operations = model.operations();
        let Some(number) = operations.iter().position(|(known, _)| *known == name) else {
            let similar = nearest(name, operations.iter().map(|(known, _)| *known));
            let all: Vec<&str> = operations.iter().map(|(known, _)| *known).collect();
            return Err(usage(format!(
                "{} has no operation {name:?}{}; its operations are {}",
                model.name(),
                question(&similar),
                all.join(", ")
            )));
        };
        let tests = situations(model, number)?;
        let chosen = match word == name {
            true => tests.iter().min_by_key(|test| rank(test)),
            false => tests.iter().find(|test| test.id == word),
        };
        match chosen {
            Some(test) => {
                let mut found = Self { test: test.clone() };
                if found.has_names() && filled(test) == 0 {
                    found.fill(model)?;
                }
                Ok(found)
            }
            None if tests.is_empty() => bail_usage!("the model has no situation of {name}"),
            None => {
                let known: Vec<&str> = tests.iter().map(|test| test.id.as_str()).collect();
                let more = if known.len() > LISTED { ", …" } else { "" };
                bail_usage!(
                    "{word} is not a situation; those of {name} are {}{more}",
                    known[..known.len().min(LISTED)].join(", ")
                )
            }
        }
    }

    /// Sets up the state of another operation with one of the same arguments. A `put` does not depend on the state, but
    /// is of interest in a map in which keys have values.
    fn fill(&mut self, model: &dyn Model) -> anyhow::Result<()> {
        let own = &self.test.calls[0].arguments;
        let is_same = |(name, value): (&String, &Value)| {
            number_of(value).is_some() && own.get(name) == Some(value)
        };
        for number in 0..model.operations().len() {
            let tests = situations(model, number)?;
            let fits =
                |test: &&Test| filled(test) > 0 && test.calls[0].arguments.iter().any(is_same);
            if let Some(other) = tests.iter().filter(fits).min_by_key(|test| rank(test)) {
                self.test.setup.clone_from(&other.setup);
                return Ok(());
            }
        }
        Ok(())
    }

    /// Its ID.
    pub(super) fn id(&self) -> &str {
        &self.test.id
    }

    /// Its condition in words of the model; empty if there is none.
    pub(super) fn condition(&self) -> String {
        self.test.condition.join(", ")
    }

    /// Whether the call has an argument that is a name, such as a key.
    pub(super) fn has_names(&self) -> bool {
        self.test.calls[0].arguments.values().any(|value| number_of(value).is_some())
    }

    /// One more than the highest number of its names.
    pub(super) fn names(&self) -> u64 {
        let arguments = self.test.calls[0].arguments.values();
        let set = self.test.setup.iter().filter_map(|step| step["set"].as_str());
        let keys = set.flat_map(|part| part.split(['[', ']'])).filter_map(number_in);
        let values = self.test.setup.iter().flat_map(|step| numbers(&step["to"]));
        let all = arguments.flat_map(numbers).chain(keys).chain(values);
        all.max().map_or(0, |number| number.saturating_add(1))
    }

    /// The steps that set up its state, with `more` added to the number of each name.
    pub(super) fn setup(&self, more: u64) -> Vec<Value> {
        let renamed = |step: &Value| {
            let mut step = step.clone();
            if let Some(part) = step["set"].as_str() {
                let renamed: Vec<String> =
                    part.split_inclusive(['[', ']']).map(|piece| rename_key(piece, more)).collect();
                step["set"] = renamed.concat().into();
            }
            rename(&mut step["to"], more);
            step
        };
        self.test.setup.iter().map(renamed).collect()
    }

    /// Its call in this thread, with `more` added to the number of each name.
    pub(super) fn call(&self, thread: usize, more: u64) -> TestCall {
        let mut call = TestCall { thread, cpu: thread, process: 0, ..self.test.calls[0].clone() };
        call.arguments.values_mut().for_each(|value| rename(value, more));
        call
    }
}

/// The tests of the operation with this number.
fn situations(model: &dyn Model, number: usize) -> anyhow::Result<Vec<Test>> {
    let mut tests = Vec::new();
    model.generate(&[number], &Limits::default(), &Wanted::default(), &mut |test| {
        tests.push(test);
        if tests.len() < MOST { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    let is_understood =
        |test: &Test| !test.calls.is_empty() && test.setup.iter().all(Value::is_object);
    ensure!(tests.iter().all(is_understood), "the program's answer is not understood");
    Ok(tests)
}

/// The setup of several situations for each of these numbers. A part of the state is set only once.
pub(super) fn setup(situations: &[Situation], numbers: impl Iterator<Item = u64>) -> Vec<Value> {
    let (mut steps, mut seen) = (Vec::new(), BTreeSet::new());
    for number in numbers {
        for step in situations.iter().flat_map(|situation| situation.setup(number)) {
            if step["set"].as_str().is_none_or(|part| seen.insert(part.to_owned())) {
                steps.push(step);
            }
        }
    }
    steps
}

/// The order in which situations are preferred.
fn rank(test: &Test) -> (bool, usize) {
    let result = test.expect.first().and_then(|expect| expect.results.first());
    // See `knee_bind::Returned`.
    let is_word = result.is_some_and(|result| result["result"].is_string());
    let filled = filled(test);
    (is_word, if is_word { filled } else { usize::MAX - filled })
}

/// How many parts of the state contain something.
fn filled(test: &Test) -> usize {
    test.setup.iter().filter(|step| is_filled(&step["to"])).count()
}

/// Whether a part of the state contains something.
fn is_filled(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(is) => *is,
        Value::Number(number) => number.as_i64() != Some(0),
        Value::Object(fields) => fields.get("length").is_none_or(is_filled),
        _ => true,
    }
}

/// The number of a name such as `key12`.
fn number_in(text: &str) -> Option<u64> {
    let letters = text.trim_end_matches(|c: char| c.is_ascii_digit());
    let is_name = !letters.is_empty() && letters.len() < text.len();
    let is_word = letters.chars().all(|c| c.is_ascii_alphabetic() || c == '_');
    (is_name && is_word).then(|| text[letters.len()..].parse().ok())?
}

fn number_of(value: &Value) -> Option<u64> {
    value.as_str().and_then(number_in)
}

/// The numbers of all names in a value.
fn numbers(value: &Value) -> Vec<u64> {
    match value {
        Value::Array(values) => values.iter().flat_map(numbers).collect(),
        Value::Object(fields) => fields.values().flat_map(numbers).collect(),
        other => number_of(other).into_iter().collect(),
    }
}

/// The name with another number, or the text as it is.
fn renamed(text: &str, more: u64) -> String {
    match number_in(text) {
        Some(number) => {
            let letters = text.trim_end_matches(|c: char| c.is_ascii_digit());
            format!("{letters}{}", number.saturating_add(more))
        }
        None => text.to_owned(),
    }
}

/// A piece of the name of a part, such as `key1]` of `table[key1]`. Only keys are names.
fn rename_key(piece: &str, more: u64) -> String {
    match piece.strip_suffix(']') {
        Some(key) => renamed(key, more) + "]",
        None => piece.to_owned(),
    }
}

fn rename(value: &mut Value, more: u64) {
    match value {
        Value::String(text) => *text = renamed(text, more),
        Value::Array(values) => values.iter_mut().for_each(|value| rename(value, more)),
        Value::Object(fields) => fields.values_mut().for_each(|value| rename(value, more)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use knee_commute::models::{map::map, queue::queue};

    use super::*;

    #[test]
    fn the_state_in_which_an_operation_does_the_most_is_chosen() {
        let get = Situation::find(&map(), "get").unwrap();
        let steps = setup(&[get], [0, 7].into_iter());
        let keys: Vec<&str> = steps.iter().filter_map(|step| step["set"].as_str()).collect();
        assert_eq!(keys, ["table[key0]", "table[key7]"]);
        assert!(steps.iter().all(|step| step["to"].is_string()), "{steps:?}");
        let push = Situation::find(&queue(), "push").unwrap();
        let steps = setup(&[push], [0].into_iter());
        assert!(steps.iter().all(|step| !is_filled(&step["to"])), "{steps:?}");
        let pop = Situation::find(&queue(), "pop").unwrap();
        let steps = setup(&[pop], [0].into_iter());
        assert!(steps.iter().any(|step| is_filled(&step["to"])), "{steps:?}");
    }

    #[test]
    fn a_situation_can_be_named_and_an_unknown_one_is_refused() {
        let get = Situation::find(&map(), "get").unwrap();
        let named = Situation::find(&map(), get.id()).unwrap();
        assert_eq!(named.id(), get.id());
        let refusal = |word: &str| match Situation::find(&map(), word) {
            Ok(found) => panic!("{word} is {}", found.id()),
            Err(error) => error.to_string(),
        };
        assert!(refusal("got").contains("get"), "{}", refusal("got"));
        assert!(refusal("got").contains("put, swap, get, remove"), "{}", refusal("got"));
        assert!(refusal("get/99.0").contains(get.id()), "{}", refusal("get/99.0"));
    }

    #[test]
    fn names_get_other_numbers_wherever_they_are() {
        let put = Situation::find(&map(), "put").unwrap();
        assert!(put.has_names() && put.names() >= 1);
        let call = put.call(3, 10);
        assert_eq!((call.thread, call.arguments["key"].as_str()), (3, Some("key10")));
        assert_eq!(rename_key("key12]", 3), "key15]");
        for same in ["table[", ".writable", "none", "12", "pages2["] {
            assert_eq!(rename_key(same, 3), same);
        }
        let mut queue = serde_json::json!({ "length": 2, "first": ["message7", null] });
        rename(&mut queue, 1);
        assert_eq!(queue["first"][0], "message8");
        assert_eq!(queue["length"], 2);
    }
}
