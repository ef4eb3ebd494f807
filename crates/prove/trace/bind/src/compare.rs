//! The results of calls, and their comparison with the results that the model allows.

use std::fmt;

use knee_harness::{Names, name_number};
use serde_json::Value;

/// The result of a call, in terms of the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Returned {
    /// The call returns nothing, according to the model.
    Nothing,
    /// One of the model's words, such as `none`.
    Word(&'static str),
    /// A number.
    Number(i64),
    /// The number of a name: 12 for `key12`.
    Name(u64),
    /// A value that the library chose and that the model leaves open, such as an address or a
    /// handle.
    Chosen(u64),
}

impl Returned {
    /// Returns the name, or the word `none` if there is no name.
    pub fn name_or(name: Option<u64>, none: &'static str) -> Self {
        name.map_or(Self::Word(none), Self::Name)
    }
}

impl fmt::Display for Returned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nothing => f.write_str("nothing"),
            Self::Word(word) => f.write_str(word),
            Self::Number(n) => write!(f, "{n}"),
            Self::Name(nr) => write!(f, "name {nr}"),
            Self::Chosen(chosen) => write!(f, "{chosen:#x}"),
        }
    }
}

/// Returns whether a call returned the expected result.
pub(crate) fn agrees<'t>(names: &mut Names<'t>, expected: &'t Value, returned: Returned) -> bool {
    let parts = expected.as_object().map_or(0, serde_json::Map::len);
    let result = &expected["result"];
    let open = result["any"].as_str();
    match returned {
        Returned::Nothing => parts == 0,
        _ if parts != 1 => false,
        Returned::Word(word) => result == word,
        Returned::Number(n) => open.is_some() || *result == n,
        Returned::Name(nr) => result["name"].as_str().and_then(name_number) == Some(nr),
        Returned::Chosen(value) => open.is_some_and(|name| names.agree(name, value)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn agree(expected: Value, returned: Returned) -> bool {
        agrees(&mut Names::default(), &expected, returned)
    }

    #[test]
    fn a_result_agrees_only_with_an_expectation_of_its_kind() {
        let results = [
            (json!({}), Returned::Nothing),
            (json!({ "result": "none" }), Returned::Word("none")),
            (json!({ "result": 3 }), Returned::Number(3)),
            (json!({ "result": { "name": "content2" } }), Returned::Name(2)),
            (json!({ "result": { "any": "address1" } }), Returned::Chosen(2)),
        ];
        for (expecting, (expected, _)) in results.iter().enumerate() {
            for (returning, &(_, returned)) in results.iter().enumerate() {
                // If the model leaves an integer open, any value is accepted.
                let open = (expecting, returning) == (4, 2);
                let agrees = agree(expected.clone(), returned);
                assert_eq!(agrees, expecting == returning || open, "{expected} {returned:?}");
            }
        }
        assert!(!agree(json!({ "result": 3 }), Returned::Number(4)));
        assert!(!agree(json!({ "result": { "name": "content2" } }), Returned::Name(12)));
    }

    #[test]
    fn each_name_stands_for_one_chosen_value_and_two_names_never_share_a_value() {
        let [one, two] = ["address1", "address2"].map(|name| json!({ "result": { "any": name } }));
        let mut names = Names::default();
        assert!(agrees(&mut names, &one, Returned::Chosen(64)));
        assert!(agrees(&mut names, &one, Returned::Chosen(64)));
        assert!(!agrees(&mut names, &two, Returned::Chosen(64)));
        assert!(!agrees(&mut names, &one, Returned::Chosen(80)));
    }
}
