//! Parameters of testcases, as data.
//!
//! `read1@file=same` is the testcase `read1` whose tasks share one file. A [`Parameter`] is a list
//! of [`Choice`]s with one key, the default first. [`Settings`] have one choice for each parameter
//! that applies.

use std::fmt;

use knee_host::suggest::nearest;

/// One value of a parameter, such as `file=same`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Choice {
    /// The parameter.
    pub key: &'static str,
    /// Its value.
    pub value: &'static str,
    /// The meaning of the value, for `knee list`.
    pub meaning: &'static str,
    /// Another parameter that this one requires, and the required values. If the other parameter is
    /// not set, it gets the first of these values.
    pub only_with: Option<(&'static str, &'static [&'static str])>,
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.key, self.value)
    }
}

/// The values of one key, the default first.
pub type Parameter = &'static [Choice];

impl Choice {
    /// A value without requirements.
    pub const fn new(key: &'static str, value: &'static str, meaning: &'static str) -> Self {
        Self { key, value, meaning, only_with: None }
    }

    /// The same value of a parameter that applies only if `key` has one of `values`. The parameter
    /// `key` precedes this one in the list of a testcase.
    pub const fn only_with(self, key: &'static str, values: &'static [&'static str]) -> Self {
        Self { only_with: Some((key, values)), ..self }
    }
}

/// Why a testcase rejects a text such as `file=same`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParameterError {
    /// The testcase has no such parameter.
    #[error("no parameter {key:?}{}", known_keys(.known))]
    Key {
        /// What was typed.
        key: String,
        /// The keys of the testcase.
        known: Vec<&'static str>,
    },
    /// The parameter has no such value.
    #[error("no {key}={value}{}; {key} is one of {}", suggestion(.key, .value, .known), .known.join(", "))]
    Value {
        /// The parameter.
        key: &'static str,
        /// What was typed.
        value: String,
        /// The values of the parameter.
        known: Vec<&'static str>,
    },
    /// Two values for one parameter.
    #[error("two values of {key}: choose one")]
    Twice {
        /// The parameter.
        key: &'static str,
    },
    /// A choice that another choice excludes.
    #[error("no {choice} with {other}, because {choice} requires {}", .needed.join(" or "))]
    Without {
        /// The invalid choice.
        choice: String,
        /// The choice that excludes it.
        other: String,
        /// The choices that it requires, one of which is enough.
        needed: Vec<String>,
    },
}

fn known_keys(known: &[&str]) -> String {
    match known {
        [] => ": it has none".to_owned(),
        keys => format!(": it has {}", keys.join(", ")),
    }
}

fn suggestion(key: &str, value: &str, known: &[&str]) -> String {
    let meant = nearest(value, known.iter().copied());
    meant.first().map_or(String::new(), |name| format!(" (did you mean {key}={name}?)"))
}

/// One choice for each parameter of a testcase that applies.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Settings(Vec<Choice>);

impl Settings {
    /// The settings of a testcase without parameters.
    pub const NONE: Self = Self(Vec::new());

    /// The settings for `chosen`, pairs of key and value, with defaults for the other parameters.
    ///
    /// # Errors
    /// A pair is unknown, repeats a key, or contradicts another.
    pub fn new<K: AsRef<str>>(
        parameters: &[Parameter],
        chosen: &[(K, K)],
    ) -> Result<Self, ParameterError> {
        let mut explicit: Vec<Choice> = Vec::new();
        for (key, value) in chosen {
            let choice = find(parameters, key.as_ref(), value.as_ref())?;
            if explicit.iter().any(|other| other.key == choice.key) {
                return Err(ParameterError::Twice { key: choice.key });
            }
            explicit.push(choice);
        }
        let implied = |key: &str| {
            explicit.iter().filter_map(|c| c.only_with).find(|(other, _)| *other == key)
        };
        let mut settings = Self::default();
        for parameter in parameters {
            let Some(default) = parameter.first() else { continue };
            let explicit = explicit.iter().find(|choice| choice.key == default.key);
            let implied = implied(default.key)
                .and_then(|(_, values)| parameter.iter().find(|choice| choice.value == values[0]));
            let choice = explicit.or(implied).unwrap_or(default);
            match choice.only_with.filter(|condition| !settings.meets(condition)) {
                None => settings.0.push(*choice),
                Some(_) if explicit.is_none() => {}
                Some((key, values)) => {
                    let other = settings.0.iter().find(|other| other.key == key);
                    return Err(ParameterError::Without {
                        choice: choice.to_string(),
                        other: other.map_or_else(String::new, Choice::to_string),
                        needed: values.iter().map(|value| format!("{key}={value}")).collect(),
                    });
                }
            }
        }
        Ok(settings)
    }

    fn meets(&self, (key, values): &(&str, &[&str])) -> bool {
        self.0.iter().any(|choice| choice.key == *key && values.contains(&choice.value))
    }

    /// Whether `choice` applies, explicitly or as the default.
    pub fn has(&self, choice: Choice) -> bool {
        self.value(choice.key) == Some(choice.value)
    }

    /// The value of the parameter `key`, if there is one that applies.
    pub fn value(&self, key: &str) -> Option<&'static str> {
        self.0.iter().find(|choice| choice.key == key).map(|choice| choice.value)
    }

    /// Key and value of each choice that differs from the default, in the order of `parameters`.
    /// Equivalent settings return the same pairs.
    pub fn params(&self, parameters: &[Parameter]) -> Vec<(String, String)> {
        let is_default = |choice: &&Choice| !parameters.iter().any(|p| p.first() == Some(*choice));
        let other = self.0.iter().filter(is_default);
        other.map(|choice| (choice.key.to_owned(), choice.value.to_owned())).collect()
    }
}

/// The choice `key=value` of `parameters`.
fn find(parameters: &[Parameter], key: &str, value: &str) -> Result<Choice, ParameterError> {
    let known = || parameters.iter().filter_map(|p| p.first()).map(|choice| choice.key).collect();
    let parameter = parameters.iter().find(|p| p.first().is_some_and(|choice| choice.key == key));
    let parameter =
        parameter.ok_or_else(|| ParameterError::Key { key: key.to_owned(), known: known() })?;
    parameter.iter().find(|choice| choice.value == value).copied().ok_or_else(|| {
        ParameterError::Value {
            key: parameter[0].key,
            value: value.to_owned(),
            known: parameter.iter().map(|choice| choice.value).collect(),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: &[&str] = &["tree", "rcu"];
    const PARAMETERS: &[Parameter] = &[
        &[
            Choice::new("map", "own", ""),
            Choice::new("map", "tree", ""),
            Choice::new("map", "rcu", ""),
        ],
        &[
            Choice::new("di", "mutex", "").only_with("map", OLD),
            Choice::new("di", "epoch", "").only_with("map", OLD),
        ],
        &[
            Choice::new("flush", "eager", "").only_with("map", &["own"]),
            Choice::new("flush", "lazy", "").only_with("map", &["own"]),
        ],
    ];

    fn shown(chosen: &[(&str, &str)]) -> Result<String, String> {
        let settings = Settings::new(PARAMETERS, chosen).map_err(|error| error.to_string())?;
        let params = settings.params(PARAMETERS);
        Ok(params.iter().map(|(k, v)| format!("{k}={v}")).collect::<Vec<_>>().join(","))
    }

    #[test]
    fn equivalent_settings_have_the_same_identity() {
        assert_eq!(shown(&[]).as_deref(), Ok(""));
        assert_eq!(shown(&[("map", "own"), ("flush", "eager")]).as_deref(), Ok(""));
        for same in
            [&[("di", "mutex")][..], &[("map", "tree")], &[("di", "mutex"), ("map", "tree")]]
        {
            assert_eq!(shown(same).as_deref(), Ok("map=tree"));
        }
        assert_eq!(shown(&[("di", "epoch"), ("map", "rcu")]).as_deref(), Ok("map=rcu,di=epoch"));
    }

    #[test]
    fn a_choice_selects_the_choice_that_it_requires() {
        let settings = Settings::new(PARAMETERS, &[("di", "epoch")]).unwrap();
        assert_eq!(settings.value("map"), Some("tree"));
        assert_eq!(settings.value("flush"), None);
        assert!(settings.has(Choice::new("di", "epoch", "")));
    }

    #[test]
    fn the_error_for_a_wrong_choice_lists_the_valid_ones() {
        let error = |chosen: &[(&str, &str)]| shown(chosen).unwrap_err();
        assert_eq!(error(&[("dj", "mutex")]), "no parameter \"dj\": it has map, di, flush");
        assert_eq!(
            error(&[("di", "mutx")]),
            "no di=mutx (did you mean di=mutex?); di is one of mutex, epoch"
        );
        assert_eq!(error(&[("di", "x")]), "no di=x; di is one of mutex, epoch");
        assert_eq!(error(&[("map", "rcu"), ("map", "tree")]), "two values of map: choose one");
        assert_eq!(
            error(&[("map", "own"), ("di", "epoch")]),
            "no di=epoch with map=own, because di=epoch requires map=tree or map=rcu"
        );
        assert_eq!(
            error(&[("flush", "lazy"), ("di", "epoch")]),
            "no di=epoch with map=own, because di=epoch requires map=tree or map=rcu"
        );
    }
}
