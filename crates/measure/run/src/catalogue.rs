//! The available testcases, and how words on the command line select them: names, globs,
//! `family:NAME`, `NAME@KEY=VALUE`.

use glob::Pattern;
use knee_host::suggest::{nearest, question_or};
use knee_results::{CaseId, Family};

use crate::parameter::{ParameterError, Settings};
use crate::testcase::Testcase;

/// Tables of testcases, by family and file.
#[derive(Clone, Copy)]
pub struct Catalogue(pub &'static [&'static [&'static [Testcase]]]);

/// Characters that occur in globs but not in names.
const GLOB: [char; 3] = ['*', '?', '['];

/// A testcase with a value for each of its parameters.
#[derive(Clone)]
pub struct Selected {
    /// The testcase.
    pub testcase: &'static Testcase,
    /// The values.
    pub settings: Settings,
}

impl Selected {
    /// Its identity. Equivalent selections have the same identity.
    pub fn id(&self) -> CaseId {
        let params = self.settings.params(self.testcase.parameters);
        CaseId { params, ..CaseId::new(self.testcase.name) }
    }

    /// The testcase with the behaviour of will-it-scale.
    pub fn original(testcase: &'static Testcase) -> Self {
        let chosen: Vec<_> = testcase.original.iter().map(|c| (c.key, c.value)).collect();
        Self::with(testcase, &chosen).expect("a choice of its own")
    }

    fn with<K: AsRef<str>>(
        testcase: &'static Testcase,
        chosen: &[(K, K)],
    ) -> Result<Self, ParameterError> {
        Ok(Self { testcase, settings: testcase.settings(chosen)? })
    }

    fn default(testcase: &'static Testcase) -> Self {
        Self::with::<&str>(testcase, &[]).expect("defaults go together")
    }

    /// One selection for each choice of the testcase that `pattern` matches.
    fn each_choice(testcase: &'static Testcase, pattern: &Pattern) -> impl Iterator<Item = Self> {
        let choices = testcase.parameters.iter().copied().filter(|p| p.len() > 1).flatten();
        let choices = choices.filter(|choice| pattern.matches(&choice.to_string()));
        choices.filter_map(move |c| Self::with(testcase, &[(c.key, c.value)]).ok())
    }
}

/// A word that selects no testcase.
#[derive(Debug, thiserror::Error)]
pub enum SelectError {
    /// No testcase or family of this name.
    #[error("no {what} {name:?}{}", suggestion(.nearest))]
    Unknown {
        /// The kind of name.
        what: &'static str,
        /// What was typed.
        name: String,
        /// Similar names.
        nearest: Vec<String>,
    },
    /// A parameter or value that the testcase does not have.
    #[error("{testcase} has {error}{}", elsewhere(.others))]
    Parameter {
        /// Its name.
        testcase: String,
        /// What is wrong.
        error: ParameterError,
        /// Testcases that do have it.
        others: Vec<&'static str>,
    },
    /// The text after an `@` has no key.
    #[error("{word:?}: parameters are written KEY=VALUE{}", values(.parameters))]
    NoKey {
        /// What was typed.
        word: String,
        /// The parameters of the testcase.
        parameters: Vec<String>,
    },
    /// An invalid glob.
    #[error("{pattern:?} is not a glob: {reason}")]
    BadGlob {
        /// What was typed.
        pattern: String,
        /// What is wrong with it.
        reason: String,
    },
}

impl SelectError {
    fn unknown(what: &'static str, name: &str, nearest: Vec<String>) -> Self {
        Self::Unknown { what, name: name.to_owned(), nearest }
    }

    fn no_match(word: &str) -> Self {
        Self::unknown("testcase matches", word, Vec::new())
    }
}

fn suggestion(nearest: &[String]) -> String {
    question_or(nearest, "; knee list shows all")
}

/// Maximum testcases with a parameter to list in an error.
const NAMED: usize = 3;

fn elsewhere(others: &[&str]) -> String {
    match others {
        [] => String::new(),
        [other] => format!("; {other} has it"),
        others if others.len() <= NAMED => format!("; {} have it", others.join(", ")),
        others => {
            format!("; {} and {} others have it", others[..NAMED].join(", "), others.len() - NAMED)
        }
    }
}

fn values(parameters: &[String]) -> String {
    match parameters {
        [] => "; this testcase has none".to_owned(),
        all => format!(", here {}", all.join(" or ")),
    }
}

/// Keys and values after an `@`; `None` if one of them has no key.
fn pairs(params: &str) -> Option<Vec<(&str, &str)>> {
    params.split(',').map(|param| param.split_once('=')).collect()
}

impl Catalogue {
    /// All testcases, in the order of `knee list`.
    pub fn all(self) -> impl Iterator<Item = &'static Testcase> {
        self.0.iter().copied().flatten().copied().flatten()
    }

    /// The testcase named `name`.
    pub fn find(self, name: &str) -> Option<&'static Testcase> {
        self.all().find(|testcase| testcase.name == name)
    }

    /// The testcase of a record, with its parameters.
    ///
    /// # Errors
    /// There is none of this name, or it does not have these parameters.
    pub fn of_record(self, id: &CaseId) -> Result<Selected, SelectError> {
        let testcase = self.find(&id.testcase).ok_or_else(|| self.no_testcase(&id.testcase))?;
        Selected::with(testcase, &id.params).map_err(|error| self.no_param(testcase, error))
    }

    /// The testcases that `words` stand for, each once, in the order of the words.
    ///
    /// # Errors
    /// The first word that stands for none.
    pub fn select<S: AsRef<str>>(self, words: &[S]) -> Result<Vec<Selected>, SelectError> {
        let mut selected: Vec<Selected> = Vec::new();
        for word in words {
            for new in self.select_one(word.as_ref())? {
                if !selected.iter().any(|old| old.id() == new.id()) {
                    selected.push(new);
                }
            }
        }
        Ok(selected)
    }

    fn select_one(self, word: &str) -> Result<Vec<Selected>, SelectError> {
        if let Some(name) = word.strip_prefix("family:") {
            return self.family(name);
        }
        if let Some((prefix, family)) = word.split_once(':')
            && !nearest(prefix, ["family"].into_iter()).is_empty()
        {
            let families = nearest_families(family).iter().map(|f| format!("family:{f}")).collect();
            return Err(SelectError::unknown("testcase is named", word, families));
        }
        let (name, params) = match word.split_once('@') {
            Some((name, params)) => (name, Some(params)),
            None => (word, None),
        };
        let name = pattern(name, word)?;
        let testcases: Vec<_> = self.all().filter(|t| name.matches(t.name)).collect();
        match (params, &testcases[..]) {
            (_, []) if word.contains(GLOB) => Err(SelectError::no_match(word)),
            (_, []) => Err(self.no_testcase(word)),
            (None, _) => Ok(testcases.into_iter().map(Selected::default).collect()),
            (Some(params), _) if params.contains(GLOB) => {
                let params = pattern(params, word)?;
                let matching: Vec<_> =
                    testcases.iter().flat_map(|t| Selected::each_choice(t, &params)).collect();
                if matching.is_empty() { Err(SelectError::no_match(word)) } else { Ok(matching) }
            }
            (Some(params), [first, ..]) => {
                let chosen = pairs(params).ok_or_else(|| no_key(word, first))?;
                self.with_params(&testcases, &chosen)
            }
        }
    }

    /// Those of `testcases` that have the parameters `chosen`.
    fn with_params(
        self,
        testcases: &[&'static Testcase],
        chosen: &[(&str, &str)],
    ) -> Result<Vec<Selected>, SelectError> {
        let mut matching = Vec::new();
        let mut errors = Vec::new();
        for testcase in testcases {
            match Selected::with(testcase, chosen) {
                Ok(selected) => matching.push(selected),
                Err(error) => errors.push((testcase, error)),
            }
        }
        // A testcase that has the parameter shows better what is wrong with it.
        let lacks_key = |(_, error): &(_, _)| matches!(error, ParameterError::Key { .. });
        match errors.into_iter().min_by_key(lacks_key) {
            Some((testcase, error)) if matching.is_empty() => Err(self.no_param(testcase, error)),
            _ => Ok(matching),
        }
    }

    fn family(self, name: &str) -> Result<Vec<Selected>, SelectError> {
        let Some(&family) = Family::ALL.iter().find(|family| family.as_str() == name) else {
            return Err(SelectError::unknown("family is named", name, nearest_families(name)));
        };
        let members = self.all().filter(|testcase| testcase.family == family);
        Ok(members.map(Selected::default).collect())
    }

    fn no_testcase(self, word: &str) -> SelectError {
        let unknown = |nearest| SelectError::unknown("testcase is named", word, nearest);
        if Family::ALL.iter().any(|family| family.as_str() == word) {
            return unknown(vec![format!("family:{word}")]);
        }
        let (name, params) = word.split_once('@').unwrap_or((word, ""));
        let chosen = pairs(params).unwrap_or_default();
        let names = nearest(name, self.all().map(|t| t.name));
        let with_params = |name: String| match self.find(&name)?.settings(&chosen) {
            Ok(_) if !chosen.is_empty() => Some(format!("{name}@{params}")),
            _ => Some(name),
        };
        unknown(names.into_iter().filter_map(with_params).collect())
    }

    fn no_param(self, testcase: &Testcase, error: ParameterError) -> SelectError {
        let has = |other: &Testcase| match &error {
            ParameterError::Key { key, .. } => {
                other.parameters.iter().any(|p| p.first().is_some_and(|c| c.key == key))
            }
            ParameterError::Value { key, value, .. } => {
                let mut choices = other.parameters.iter().copied().flatten();
                choices.any(|choice| choice.key == *key && choice.value == value)
            }
            ParameterError::Twice { .. } | ParameterError::Without { .. } => false,
        };
        let others = self.all().filter(|other| has(other)).map(|other| other.name).collect();
        SelectError::Parameter { testcase: testcase.name.to_owned(), error, others }
    }
}

/// The glob `text`, a part of `word`. A name without special characters matches itself.
fn pattern(text: &str, word: &str) -> Result<Pattern, SelectError> {
    glob(text).map_err(|reason| SelectError::BadGlob {
        pattern: word.to_owned(),
        reason: reason.to_owned(),
    })
}

/// The glob `text`.
///
/// # Errors
/// What is wrong with it.
pub fn glob(text: &str) -> Result<Pattern, &'static str> {
    Pattern::new(text).map_err(|error| match error.msg {
        // The messages of the crate speak of paths.
        text if text.contains("range") => "a [ has no matching ]",
        _ => "write one * instead of several",
    })
}

fn nearest_families(name: &str) -> Vec<String> {
    nearest(name, Family::ALL.iter().map(|family| family.as_str()))
}

fn no_key(word: &str, testcase: &Testcase) -> SelectError {
    let shown = |parameter: &&[crate::parameter::Choice]| {
        let first = parameter.first()?;
        let values: Vec<&str> = parameter.iter().map(|choice| choice.value).collect();
        Some(format!("{}={}", first.key, values.join("|")))
    };
    let parameters = testcase.parameters.iter().filter_map(shown).collect();
    SelectError::NoKey { word: word.to_owned(), parameters }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::CATALOGUE;

    fn ids(words: &[&str]) -> Vec<String> {
        CATALOGUE.select(words).unwrap().iter().map(|s| s.id().to_string()).collect()
    }

    fn error(word: &str) -> String {
        CATALOGUE.select(&[word]).err().unwrap().to_string()
    }

    #[test]
    fn a_name_a_parameter_a_glob_and_a_family_each_select() {
        assert_eq!(ids(&["read1", "read1@file=same"]), ["read1", "read1@file=same"]);
        assert_eq!(ids(&["futex?"]), ["futex1", "futex2"]);
        assert_eq!(ids(&["family:process"]), ["getppid1"]);
        assert_eq!(ids(&["*@file=same"]), ["read1@file=same", "read2"]);
        assert_eq!(ids(&["*@file=*"]), ["read1", "read1@file=same"]);
    }

    #[test]
    fn equivalent_selections_are_selected_once() {
        assert_eq!(ids(&["getppid1", "getpp*", "getppid1"]), ["getppid1"]);
        assert_eq!(ids(&["read1@file=own", "read1"]), ["read1"]);
    }

    #[test]
    fn a_misspelt_word_gets_the_nearest_ones() {
        assert!(error("getpid1").contains("did you mean getppid1"));
        assert!(
            error("raed1@file=same").contains("did you mean read1@file=same or read2@file=same")
        );
        assert!(error("famly:lock").contains("did you mean family:lock?"));
        assert!(error("lock").contains("did you mean family:lock"));
        assert!(error("family:lokc").contains("did you mean lock"));
        assert_eq!(error("zz*"), "no testcase matches \"zz*\"; knee list shows all");
        assert_eq!(error("getppid"), "no testcase is named \"getppid\" (did you mean getppid1?)");
        assert_eq!(error("["), "\"[\" is not a glob: a [ has no matching ]");
        assert_eq!(error("a***"), "\"a***\" is not a glob: write one * instead of several");
    }

    #[test]
    fn the_error_for_a_wrong_parameter_lists_the_valid_ones() {
        assert_eq!(
            error("read1@file=sam"),
            "read1 has no file=sam (did you mean file=same?); file is one of own, same"
        );
        assert_eq!(
            error("futex1@file=same"),
            "futex1 has no parameter \"file\": it has none; read1, read2 have it"
        );
        assert_eq!(
            error("read1@same-file"),
            "\"read1@same-file\": parameters are written KEY=VALUE, here file=own|same"
        );
        assert_eq!(error("*@file=x"), "read1 has no file=x; file is one of own, same");
    }

    #[test]
    fn a_testcase_of_a_record_is_found_with_its_parameters() {
        let id = |text: &str| text.parse::<CaseId>().unwrap();
        let found = CATALOGUE.of_record(&id("after:read1@file=same")).unwrap();
        assert_eq!(found.id().to_string(), "read1@file=same");
        assert!(CATALOGUE.of_record(&id("read1@file=nosuch")).is_err());
        assert!(CATALOGUE.of_record(&id("read1@nosuch")).is_err());
    }
}
