//! What a rate belongs to: a testcase, its parameters, and the side of a comparison.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::convert::Infallible;
use std::fmt;
use std::str::FromStr;

use knee_host::text::{one_line, original};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strum::{Display, EnumString};

/// The parameter of a server whose number of connections is swept.
const CONNECTIONS: &str = "connections";

/// One of two sides that are measured in interleaved rounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Display, EnumString)]
#[strum(serialize_all = "kebab-case")]
pub enum Side {
    /// The baseline.
    Before,
    /// The candidate.
    After,
}

/// The identity of what is measured, everywhere: `mmap1`, `read1@file=same`, `before:mmap1`.
///
/// A text that does not have this form is the name of a testcase as a whole, so that any name from
/// a foreign file is an identity.
///
/// ```
/// use knee_results::CaseId;
///
/// let id: CaseId = "before:vm_mmap1@map=rcu,di=epoch".parse().unwrap();
/// assert_eq!(id.testcase, "vm_mmap1");
/// assert_eq!(id.param("di"), Some("epoch"));
/// assert_eq!(id.to_string(), "before:vm_mmap1@map=rcu,di=epoch");
/// ```
///
/// Identities are sorted by their parts. Parameters that are numbers have the order of these numbers.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(from = "Cow<'_, str>", into = "String")]
#[schemars(
    with = "String",
    description = "What is measured, such as `mmap1`, `read1@file=same` or `before:mmap1`."
)]
pub struct CaseId {
    /// Name of the testcase, plug-in or command.
    pub testcase: String,
    /// Parameters that differ from the default, by key and value.
    pub params: Vec<(String, String)>,
    /// The side, in a comparison.
    pub side: Option<Side>,
}

impl CaseId {
    /// The testcase called `name`, with its defaults.
    pub fn new(name: impl Into<String>) -> Self {
        Self { testcase: name.into(), params: Vec::new(), side: None }
    }

    /// Parses a name from a record or result file, which may be older than parameters with keys, and may contain
    /// newlines; see [`one_line`].
    pub fn from_record(text: &str) -> Self {
        let Ok(id) = one_line(text).parse();
        before_keys::upgraded(id)
    }

    /// The same case on one side of a comparison.
    pub fn on(self, side: Side) -> Self {
        Self { side: Some(side), ..self }
    }

    /// The same case without a side.
    pub fn without_side(&self) -> Self {
        Self { side: None, ..self.clone() }
    }

    /// The same server with this number of connections.
    pub fn with_connections(self, connections: u32) -> Self {
        self.with_param(CONNECTIONS, connections)
    }

    /// The same case with another parameter.
    pub fn with_param(mut self, key: &str, value: impl fmt::Display) -> Self {
        self.params.push((key.to_owned(), value.to_string()));
        self
    }

    /// The same case without its number of connections, and this number, if it has one.
    pub fn split_connections(&self) -> Option<(Self, u32)> {
        let connections = self.connections()?;
        let mut case = self.clone();
        case.params.retain(|(key, _)| key != CONNECTIONS);
        Some((case, connections))
    }

    /// The number of connections, if the name contains one.
    pub fn connections(&self) -> Option<u32> {
        self.param(CONNECTIONS)?.parse().ok()
    }

    /// The value of a parameter; `None` is the default.
    pub fn param(&self, key: &str) -> Option<&str> {
        self.params.iter().find(|(other, _)| other == key).map(|(_, value)| value.as_str())
    }

    /// The parameters as they are compared: a number sorts after text, and by its value.
    fn compared_params(&self) -> impl Iterator<Item = (&str, Option<u64>, &str)> {
        self.params.iter().map(|(key, value)| (key.as_str(), value.parse().ok(), value.as_str()))
    }
}

impl Ord for CaseId {
    /// Compares without allocation, because readers of samples sort by identity.
    fn cmp(&self, other: &Self) -> Ordering {
        self.testcase
            .cmp(&other.testcase)
            .then_with(|| self.compared_params().cmp(other.compared_params()))
            .then_with(|| self.side.cmp(&other.side))
    }
}

impl PartialOrd for CaseId {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for CaseId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = self.side.map_or(String::new(), |side| format!("{side}:"));
        text.push_str(&self.testcase);
        for (nr, (key, value)) in self.params.iter().enumerate() {
            let before = if nr == 0 { '@' } else { ',' };
            text.extend([before.to_string().as_str(), key, "=", value]);
        }
        f.pad(&text)
    }
}

impl FromStr for CaseId {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        let (side, rest) = match text.split_once(':').map(|(side, rest)| (side.parse(), rest)) {
            Some((Ok(side), rest)) => (Some(side), rest),
            _ => (None, text),
        };
        let params = rest.split_once('@').and_then(|(name, params)| {
            let pair = |param: &str| {
                let (key, value) = param.split_once('=')?;
                Some((key.to_owned(), value.to_owned()))
            };
            Some((name, params.split(',').map(pair).collect::<Option<Vec<_>>>()?))
        });
        let (testcase, params) = params.unwrap_or((rest, Vec::new()));
        Ok(Self { testcase: testcase.to_owned(), params, side })
    }
}

impl From<CaseId> for String {
    fn from(id: CaseId) -> Self {
        original(&id.to_string()).into_owned()
    }
}

impl From<Cow<'_, str>> for CaseId {
    fn from(text: Cow<'_, str>) -> Self {
        Self::from_record(&text)
    }
}

/// Records from before 2026-11-23 have words for choices: `read1@same-file`.
mod before_keys {
    use super::CaseId;

    const WORDS: [(&str, &str, &str); 12] = [
        ("own-file", "file", "own"),
        ("same-file", "file", "same"),
        ("same-file-own-page", "file", "same-own-page"),
        ("own-directory", "path", "own-directory"),
        ("same-directory", "path", "same-directory"),
        ("own-mutex", "mutex", "own"),
        ("same-mutex", "mutex", "same"),
        ("process-mutex", "mutex", "process"),
        ("small-pages", "pages", "small"),
        ("system-pages", "pages", "system"),
        ("same-cpu", "helper", "same-cpu"),
        ("next-cpu", "helper", "next-cpu"),
    ];
    /// Parameters of FreeBSD's address space, with the unspecified ones filled in.
    const VM: [(&str, &str); 3] = [("rmap", "pv"), ("di", "mutex"), ("accounting", "atomic")];

    pub(super) fn upgraded(mut id: CaseId) -> CaseId {
        if let Some((name, word)) = id.testcase.split_once('@')
            && let Some((_, key, value)) = WORDS.into_iter().find(|(known, ..)| *known == word)
        {
            // The only ones that choose between a file and directories.
            let is_path = name.starts_with("open") && word == "same-file";
            let (key, value) = if is_path { ("path", word) } else { (key, value) };
            id.params = vec![(key.to_owned(), value.to_owned())];
            id.testcase = name.to_owned();
        }
        if id.testcase.starts_with("vm_") && id.param("map").is_none() {
            let is_old = |(key, _): &(String, String)| VM.iter().any(|(known, _)| known == key);
            if id.params.iter().any(is_old) {
                id.params.insert(0, ("map".to_owned(), "tree".to_owned()));
            }
        }
        id.params.retain(|(key, value)| !VM.contains(&(key, value)));
        id
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn printed_results_can_be_read_back() {
        for text in ["mmap1", "read1@file=same", "after:vm_mmap1@map=rcu,di=epoch", "before:sort"] {
            let id: CaseId = text.parse().unwrap();
            assert_eq!(id.to_string(), text);
            assert_eq!(serde_json::from_str::<CaseId>(&format!("{text:?}")).unwrap(), id);
        }
        let side = |text: &str| text.parse::<CaseId>().unwrap().side;
        assert_eq!(side("after:mmap1"), Some(Side::After));
        assert_eq!(side("afterwards"), None);
    }

    #[test]
    fn parameters_that_are_numbers_have_their_order() {
        let texts = ["b", "a@n=64", "a@n=x", "a@n=8", "before:a", "a"];
        let mut ids: Vec<CaseId> = texts.iter().map(|text| text.parse().unwrap()).collect();
        ids.sort();
        let sorted: Vec<String> = ids.iter().map(CaseId::to_string).collect();
        assert_eq!(sorted, ["a", "before:a", "a@n=x", "a@n=8", "a@n=64", "b"]);
    }

    #[test]
    fn each_part_decides_only_between_identities_whose_earlier_parts_are_equal() {
        let sorted = [
            "a",
            "before:a",
            "after:a",
            "a@a=9",
            // A number beyond 64 bits is text.
            "a@k=18446744073709551616",
            // Equal numbers are sorted as text.
            "a@k=01,z=9",
            // Fewer parameters come first, and the side comes last.
            "a@k=1",
            "after:a@k=1",
            "a@k=1,a=1",
            "a@z=",
            "ab",
            "b@a=1",
        ];
        let ids = sorted.map(|text| text.parse::<CaseId>().unwrap());
        for (nr, id) in ids.iter().enumerate() {
            for (other_nr, other) in ids.iter().enumerate() {
                assert_eq!(id.cmp(other), nr.cmp(&other_nr), "{id} and {other}");
            }
        }
    }

    #[test]
    fn a_number_of_connections_can_be_taken_off() {
        let id: CaseId = "after:nginx@connections=64".parse().unwrap();
        let (nginx, connections) = id.split_connections().unwrap();
        assert_eq!((nginx.to_string().as_str(), connections), ("after:nginx", 64));
        assert_eq!(nginx.with_connections(64), id);
        assert_eq!("nginx@connections=x".parse::<CaseId>().unwrap().split_connections(), None);
    }

    #[test]
    fn a_name_in_any_other_form_is_a_testcase() {
        for text in ["user@host", "a@b=c,d", "", "@", "c:\\x", "mmap1@"] {
            assert_eq!(text.parse::<CaseId>().unwrap(), CaseId::new(text));
        }
    }

    #[test]
    fn a_name_in_an_old_record_is_converted_to_the_current_form() {
        let id = |text: &str| CaseId::from(Cow::Borrowed(text)).to_string();
        assert_eq!(id("read1@same-file"), "read1@file=same");
        assert_eq!(id("before:open1@same-file"), "before:open1@path=same-file");
        assert_eq!(id("context_switch1@next-cpu"), "context_switch1@helper=next-cpu");
        assert_eq!(id("vm_mmap1@di=mutex"), "vm_mmap1@map=tree");
        assert_eq!(id("vm_mmap1@map=rcu,di=epoch"), "vm_mmap1@map=rcu,di=epoch");
        assert_eq!(id("vm_page_fault4@shootdown=lazy"), "vm_page_fault4@shootdown=lazy");
        assert_eq!(id("read1@nosuch"), "read1@nosuch");
    }

    #[test]
    fn a_name_from_a_file_adds_no_lines_to_text_and_is_unchanged_in_json() {
        let json = r#""mmap1\n0 slower\tx""#;
        let id: CaseId = serde_json::from_str(json).unwrap();
        assert_eq!(knee_host::text::plain(&id.to_string()), "mmap1 0 slower x");
        assert_eq!(serde_json::to_string(&id).unwrap(), json);
    }

    proptest! {
        #[test]
        fn any_text_survives(text: String) {
            prop_assert_eq!(text.parse::<CaseId>().unwrap().to_string(), text);
        }
    }
}
