//! The initial state and the arguments of a test.
//!
//! A name such as `key1` stands for an arbitrary value of its sort. A binding gets only the number in the
//! name: 1 for `key1`. A test omits values that make no difference, and a binding gets 0 instead.

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
            _ => panic!("an unknown set-up step: {step}"),
        })
    }

    fn part(self, name: &str) -> Option<&'t Value> {
        self.parts().find(|(part, _)| *part == name).map(|(_, to)| to)
    }

    /// Returns the entries of a map from names to names: each key with its value.
    ///
    /// # Panics
    /// Panics if a key or a value is not a name.
    pub fn entries(self, map: &str) -> Vec<(u64, u64)> {
        let present = self.raw_entries(map).into_iter().filter(|(_, value)| !value.is_null());
        present.map(|(key, value)| (key, name(map, value))).collect()
    }

    /// Returns the names in a set, or the keys of a map whose values have fields. Each field of a value is a
    /// part of its own: `setup.flag("pages[page0].writable")` reads one.
    ///
    /// # Panics
    /// Panics if an element is not a name.
    pub fn elements(self, set: &str) -> Vec<u64> {
        let key = |part: &'t str| part.strip_prefix(set)?.strip_prefix('[')?.split_once(']');
        let present = self.parts().filter(|(_, value)| !value.is_null());
        let keys = present.filter_map(|(part, _)| key(part));
        let mut numbers: Vec<u64> = keys.map(|(key, _)| number_of(set, key)).collect();
        // The fields of one value are adjacent parts, so equal keys are adjacent too.
        numbers.dedup();
        numbers
    }

    fn raw_entries(self, map: &str) -> Vec<(u64, &'t Value)> {
        let key = |part: &'t str| part.strip_prefix(map)?.strip_prefix('[')?.strip_suffix(']');
        let entries = self.parts().filter_map(|(part, value)| Some((key(part)?, value)));
        entries.map(|(key, value)| (number_of(map, key), value)).collect()
    }

    /// Returns the names in a queue or a stack, in the order in which calls take them.
    ///
    /// If no call depends on an element, the test leaves this element open, and this function returns 0 for
    /// it.
    ///
    /// # Panics
    /// Panics if the part is not a sequence of names.
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

    /// Returns a number.
    ///
    /// # Panics
    /// Panics if the part is not a number.
    pub fn number(self, part: &str) -> i64 {
        self.part(part).map_or(0, |value| number(part, value))
    }

    /// Returns a name.
    ///
    /// # Panics
    /// Panics if the part is not a name.
    pub fn name(self, part: &str) -> u64 {
        self.part(part).map_or(0, |value| name(part, value))
    }

    /// Returns a boolean.
    ///
    /// # Panics
    /// Panics if the part is not a boolean.
    pub fn flag(self, part: &str) -> bool {
        self.part(part).is_some_and(|value| flag(part, value))
    }
}

/// A call of a test.
#[derive(Debug, Clone, Copy)]
pub struct Call<'t>(pub(crate) &'t TestCall);

impl<'t> Call<'t> {
    /// Returns the name of the operation.
    pub fn operation(self) -> &'t str {
        &self.0.operation
    }

    /// Returns the index of the thread that makes the call. Each call of a test has its own thread.
    pub fn thread(self) -> usize {
        self.0.thread
    }

    /// Returns an argument that is a name.
    ///
    /// # Panics
    /// Panics if the argument is not a name.
    pub fn name(self, argument: &str) -> u64 {
        self.0.arguments.get(argument).map_or(0, |value| name(argument, value))
    }

    /// Returns an argument that is a number.
    ///
    /// # Panics
    /// Panics if the argument is not a number.
    pub fn number(self, argument: &str) -> i64 {
        self.0.arguments.get(argument).map_or(0, |value| number(argument, value))
    }

    /// Returns an argument that is a boolean.
    ///
    /// # Panics
    /// Panics if the argument is not a boolean.
    pub fn flag(self, argument: &str) -> bool {
        self.0.arguments.get(argument).is_some_and(|value| flag(argument, value))
    }
}

fn name(of: &str, value: &Value) -> u64 {
    number_of(of, value.as_str().unwrap_or_else(|| wrong(of, value)))
}

fn flag(of: &str, value: &Value) -> bool {
    value.as_bool().unwrap_or_else(|| wrong(of, value))
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
            json!({ "set": "pages[page2].writable", "to": true }),
            json!({ "set": "pages[page2].content", "to": "datum5" }),
            json!({ "set": "pages[page3]", "to": null }),
        ];
        let setup = Setup(&steps);
        assert_eq!(setup.entries("table"), [(1, 12)]);
        assert_eq!(setup.elements("used"), [4]);
        assert_eq!(setup.elements("pages"), [2]);
        assert!(setup.flag("pages[page2].writable") && !setup.flag("pages[page2].shared"));
        assert_eq!(setup.name("pages[page2].content"), 5);
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
