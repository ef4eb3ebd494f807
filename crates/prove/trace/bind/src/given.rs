//! What a test gives: a state and arguments.
//!
//! Names, such as `key1`, stand for anything of their sort: to a binding `key1` is the number 1.
//! What makes no difference is missing in a test; then it is 0.

use knee_commute::TestCall;
use knee_harness::name_number;
use serde_json::Value;

/// The initial state of a test, part by part.
#[derive(Debug, Clone, Copy)]
pub struct Setup<'t>(pub(crate) &'t [Value]);

impl<'t> Setup<'t> {
    fn parts(self) -> impl Iterator<Item = (&'t str, &'t Value)> {
        self.0.iter().map(|step| match (step["set"].as_str(), step.get("to")) {
            (Some(part), Some(to)) => (part, to),
            _ => panic!("a set-up step that sets nothing: {step}"),
        })
    }

    fn part(self, name: &str) -> Option<&'t Value> {
        self.parts().find(|(part, _)| *part == name).map(|(_, to)| to)
    }

    /// What is there in a map of names to names: each key with its value.
    ///
    /// # Panics
    /// There is something else in it.
    pub fn entries(self, map: &str) -> Vec<(u64, u64)> {
        let present = self.raw_entries(map).into_iter().filter(|(_, value)| !value.is_null());
        present.map(|(key, value)| (key, name(map, value))).collect()
    }

    /// What is there in a set of names.
    ///
    /// # Panics
    /// Its elements are no names.
    pub fn elements(self, set: &str) -> Vec<u64> {
        let present = self.raw_entries(set).into_iter().filter(|(_, value)| !value.is_null());
        present.map(|(key, _)| key).collect()
    }

    fn raw_entries(self, map: &str) -> Vec<(u64, &'t Value)> {
        let key = |part: &'t str| part.strip_prefix(map)?.strip_prefix('[')?.strip_suffix(']');
        let entries = self.parts().filter_map(|(part, value)| Some((key(part)?, value)));
        entries.map(|(key, value)| (number_of(map, key), value)).collect()
    }

    /// The names in a queue or a stack; the first is the first to be taken.
    ///
    /// An element that the test leaves open, because no call depends on it, is 0.
    ///
    /// # Panics
    /// There is something else in it.
    pub fn sequence(self, part: &str) -> Vec<u64> {
        let Some(sequence) = self.part(part) else { return Vec::new() };
        let (Some(length), Some(first)) =
            (sequence["length"].as_u64(), sequence["first"].as_array())
        else {
            panic!("{part} is not a sequence: {sequence}");
        };
        let known = first.iter().map(|element| name(part, element));
        known.chain(std::iter::repeat(0)).take(length as usize).collect()
    }

    /// A number.
    ///
    /// # Panics
    /// It is something else.
    pub fn number(self, part: &str) -> i64 {
        self.part(part).map_or(0, |value| number(part, value))
    }

    /// A name.
    ///
    /// # Panics
    /// It is something else.
    pub fn name(self, part: &str) -> u64 {
        self.part(part).map_or(0, |value| name(part, value))
    }
}

/// A call of a test.
#[derive(Debug, Clone, Copy)]
pub struct Call<'t>(pub(crate) &'t TestCall);

impl<'t> Call<'t> {
    /// The operation.
    pub fn operation(self) -> &'t str {
        &self.0.operation
    }

    /// Which thread makes it, from 0: of the calls of a test each has its own.
    pub fn thread(self) -> usize {
        self.0.thread
    }

    /// An argument that is a name.
    ///
    /// # Panics
    /// It is something else.
    pub fn name(self, argument: &str) -> u64 {
        self.0.arguments.get(argument).map_or(0, |value| name(argument, value))
    }

    /// An argument that is a number.
    ///
    /// # Panics
    /// It is something else.
    pub fn number(self, argument: &str) -> i64 {
        self.0.arguments.get(argument).map_or(0, |value| number(argument, value))
    }

    /// An argument that is a yes or a no.
    ///
    /// # Panics
    /// It is something else.
    pub fn flag(self, argument: &str) -> bool {
        let flag = |value: &Value| value.as_bool().unwrap_or_else(|| wrong(argument, value));
        self.0.arguments.get(argument).is_some_and(flag)
    }
}

fn name(of: &str, value: &Value) -> u64 {
    number_of(of, value.as_str().unwrap_or_else(|| wrong(of, value)))
}

fn number(of: &str, value: &Value) -> i64 {
    value.as_i64().unwrap_or_else(|| wrong(of, value))
}

fn number_of(of: &str, name: &str) -> u64 {
    name_number(name).unwrap_or_else(|| panic!("{of} is not a name followed by a number: {name}"))
}

fn wrong(of: &str, value: &Value) -> ! {
    panic!("{of} has a different type than the binding expects: {value}")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_state_is_read_part_by_part() {
        let steps = [
            json!({ "set": "table[key1]", "to": "content12" }),
            json!({ "set": "table[key2]", "to": null }),
            json!({ "set": "tables", "to": 3 }),
            json!({ "set": "mail", "to": { "length": 2, "first": ["message7"] } }),
            json!({ "set": "used[address4]", "to": {} }),
        ];
        let setup = Setup(&steps);
        assert_eq!(setup.entries("table"), [(1, 12)]);
        assert_eq!(setup.elements("used"), [4]);
        assert_eq!(setup.sequence("mail"), [7, 0]);
        assert_eq!((setup.number("tables"), setup.number("nothing")), (3, 0));
    }

    #[test]
    fn an_argument_that_makes_no_difference_is_zero() {
        let call = serde_json::from_value(json!({
            "label": "a", "operation": "push", "process": 0, "thread": 0, "cpu": 0,
            "arguments": { "message": "message3" },
        }));
        let call: TestCall = call.expect("a call");
        let call = Call(&call);
        assert_eq!((call.name("message"), call.name("other")), (3, 0));
        assert_eq!((call.number("count"), call.flag("wait")), (0, false));
    }

    #[test]
    #[should_panic(expected = "n has a different type than the binding expects: \"key0\"")]
    fn a_value_of_another_type_is_reported() {
        Setup(&[json!({ "set": "n", "to": "key0" })]).number("n");
    }
}
