//! Whether a call returned what the model says.

use std::fmt;

use serde_json::Value;

use crate::given::name_number;

/// What a call returned, in terms of the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Returned {
    /// The model lets the caller see nothing.
    Nothing,
    /// One of the model's words, such as `none`.
    Word(&'static str),
    /// A number.
    Number(i64),
    /// The name with this number.
    Name(u64),
    /// Something that the library chose, where the model leaves open what: an address, a handle.
    Chosen(u64),
}

impl Returned {
    /// A name, or this word if there is none.
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

/// What was chosen in one run, with the names that the model has for it.
#[derive(Debug, Default)]
pub(crate) struct Choices<'t>(Vec<(&'t str, u64)>);

impl<'t> Choices<'t> {
    /// Whether `returned` is what `expected`, a result of a test, says. What was chosen has to be the
    /// same for one name and different for two.
    pub(crate) fn agree(&mut self, expected: &'t Value, returned: Returned) -> bool {
        let parts = expected.as_object().map_or(0, serde_json::Map::len);
        let result = &expected["result"];
        let open = result["any"].as_str();
        match returned {
            Returned::Nothing => parts == 0,
            _ if parts != 1 => false,
            Returned::Word(word) => result == word,
            Returned::Number(n) => open.is_some() || *result == n,
            Returned::Name(nr) => result["name"].as_str().and_then(name_number) == Some(nr),
            Returned::Chosen(chosen) => open.is_some_and(|name| {
                let other = |&(known, value): &(&str, u64)| (known == name) != (value == chosen);
                let agrees = !self.0.iter().any(other);
                self.0.push((name, chosen));
                agrees
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn agree(expected: Value, returned: Returned) -> bool {
        Choices::default().agree(&expected, returned)
    }

    #[test]
    fn each_kind_of_result_agrees_with_its_own_only() {
        let results = [
            (json!({}), Returned::Nothing),
            (json!({ "result": "none" }), Returned::Word("none")),
            (json!({ "result": 3 }), Returned::Number(3)),
            (json!({ "result": { "name": "content2" } }), Returned::Name(2)),
            (json!({ "result": { "any": "address1" } }), Returned::Chosen(2)),
        ];
        for (expecting, (expected, _)) in results.iter().enumerate() {
            for (returning, &(_, returned)) in results.iter().enumerate() {
                // An integer that is left open may be any.
                let open = (expecting, returning) == (4, 2);
                let agrees = agree(expected.clone(), returned);
                assert_eq!(agrees, expecting == returning || open, "{expected} {returned:?}");
            }
        }
        assert!(!agree(json!({ "result": 3 }), Returned::Number(4)));
        assert!(!agree(json!({ "result": { "name": "content2" } }), Returned::Name(12)));
    }

    #[test]
    fn what_is_chosen_is_one_for_a_name_and_two_for_two() {
        let [one, two] = ["address1", "address2"].map(|name| json!({ "result": { "any": name } }));
        let mut choices = Choices::default();
        assert!(choices.agree(&one, Returned::Chosen(64)));
        assert!(choices.agree(&one, Returned::Chosen(64)));
        assert!(!choices.agree(&two, Returned::Chosen(64)));
        assert!(!choices.agree(&one, Returned::Chosen(80)));
    }
}
