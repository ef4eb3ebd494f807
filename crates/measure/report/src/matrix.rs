//! When the operations of an interface commute, pair by pair: data for a page, and the document
//! that `knee commute matrix --json` writes.
//!
//! ```json
//! {
//!   "schema": 1,
//!   "kind": "commute matrix",
//!   "knee_version": "0.1.0",
//!   "interface": "counter",
//!   "about": "a counter: increments commute unless they return the value",
//!   "operations": [{ "name": "inc_get", "about": "(): increments and returns the new value" }],
//!   "pairs": [
//!     {
//!       "operations": ["inc_get", "inc_get"],
//!       "situations": 1,
//!       "commuting": 0,
//!       "cut": false,
//!       "given_up": 0,
//!       "commute_if_any_of": [],
//!       "differ": [
//!         { "because": "a (inc_get) sees n + 1 in …", "situations": 1, "all_of": [] }
//!       ]
//!     }
//!   ]
//! }
//! ```
//!
//! A condition is a list of formulas that must all hold; an empty list always holds. In formulas,
//! `a` and `b` are the calls of a pair, in the order of `operations`.

use std::collections::{BTreeSet, HashMap};

use knee_host::json::{Head, fault_in_file};
use serde::{Deserialize, Serialize};

/// Version of the document.
const SCHEMA: u64 = 1;
/// The kind of the document.
const KIND: &str = "commute matrix";
/// The most operations, because a matrix has a cell for each pair.
const MOST_OPERATIONS: usize = 1_000;
/// How to write a document.
const MAKE: &str = "`knee commute matrix --json > FILE` writes a matrix";

/// When the operations of an interface commute.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Matrix {
    /// Version of knee whose model it was computed from.
    pub knee_version: String,
    /// Name of the interface.
    pub interface: String,
    /// Description of the interface.
    pub about: String,
    /// The operations in display order.
    pub operations: Vec<MatrixOperation>,
    /// The pairs, each at most once, including pairs of an operation with itself.
    pub pairs: Vec<Pair>,
}

/// An operation of an interface.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MatrixOperation {
    /// Name of the operation.
    pub name: String,
    /// Its arguments and its effects.
    pub about: String,
}

/// When two operations commute.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pair {
    /// The operations of call a and call b.
    pub operations: [String; 2],
    /// Number of situations: classes of initial states and arguments that the model distinguishes.
    pub situations: u32,
    /// Number of situations in which they commute.
    pub commuting: u32,
    /// Whether there are more situations than were explored.
    pub cut: bool,
    /// Number of situations that were abandoned because the model asks too many questions.
    pub given_up: u32,
    /// The operations commute if all formulas of any of these lists hold.
    pub commute_if_any_of: Vec<Vec<String>>,
    /// Why they do not commute otherwise; the most frequent reason first.
    pub differ: Vec<Differing>,
}

/// Why two operations do not commute.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Differing {
    /// The observation that distinguishes the two orders.
    pub because: String,
    /// Number of situations with this observation.
    pub situations: u32,
    /// Formulas that describe one of these situations. If empty, the orders always differ.
    pub all_of: Vec<String>,
}

/// Why a text is not a matrix.
#[derive(Debug, thiserror::Error)]
pub enum MatrixError {
    /// It is not JSON, or is truncated.
    #[error("{}; {MAKE}", fault_in_file(.0))]
    NotJson(serde_json::Error),
    /// It is another document.
    #[error("it is JSON, but not a matrix of commuting operations: {MAKE}")]
    OtherKind,
    /// It has the schema of another version of knee.
    #[error(
        "it has schema {found}, but this version of knee reads {SCHEMA}; regenerate it with this \
         version ({MAKE}), or read it with the version that wrote it"
    )]
    Schema {
        /// The schema of the document.
        found: u64,
    },
    /// A field is missing or has the wrong type.
    #[error("{}; {MAKE}", fault_in_file(.0))]
    Malformed(serde_json::Error),
    /// It contradicts itself.
    #[error("{0}; {MAKE}")]
    Impossible(String),
}

#[derive(Serialize)]
struct Document<'m> {
    schema: u64,
    kind: &'static str,
    #[serde(flatten)]
    matrix: &'m Matrix,
}

impl Matrix {
    /// The document as indented JSON.
    pub fn to_json(&self) -> String {
        let document = Document { schema: SCHEMA, kind: KIND, matrix: self };
        serde_json::to_string_pretty(&document).expect("all keys of plain data are text") + "\n"
    }

    /// Reads a document.
    ///
    /// # Errors
    /// If it does not have this schema, or contradicts itself.
    pub fn from_json(text: &str) -> Result<Self, MatrixError> {
        match Head::of(text.as_bytes()).map_err(MatrixError::NotJson)?.schema_of(KIND) {
            Some(SCHEMA) => {}
            Some(found) => return Err(MatrixError::Schema { found }),
            None => return Err(MatrixError::OtherKind),
        }
        let matrix: Self = serde_json::from_str(text).map_err(MatrixError::Malformed)?;
        matrix.check().map_err(MatrixError::Impossible)?;
        Ok(matrix)
    }

    /// Returns the first contradiction as an error.
    fn check(&self) -> Result<(), String> {
        let operations = self.operations.len();
        if operations > MOST_OPERATIONS {
            return Err(format!(
                "it has {operations} operations, and knee reads at most {MOST_OPERATIONS}"
            ));
        }
        let mut names = BTreeSet::new();
        for MatrixOperation { name, .. } in &self.operations {
            if !names.insert(name) {
                return Err(format!("operation {name} occurs twice"));
            }
        }
        let mut pairs = BTreeSet::new();
        for pair in &self.pairs {
            let [a, b] = &pair.operations;
            if let Some(unknown) = pair.operations.iter().find(|name| !names.contains(name)) {
                return Err(format!(
                    "a pair contains the operation {unknown}, which is not listed"
                ));
            }
            if !pairs.insert([a.min(b), a.max(b)]) {
                return Err(format!("the pair {a} and {b} occurs twice"));
            }
            if pair.commuting > pair.situations {
                let Pair { situations, commuting, .. } = pair;
                return Err(format!(
                    "{a} and {b} commute in {commuting} of {situations} situations"
                ));
            }
        }
        Ok(())
    }

    /// The pairs by the indices of their operations, the smaller index first.
    pub(crate) fn cells(&self) -> HashMap<[usize; 2], &Pair> {
        let names = self.operations.iter().enumerate();
        let numbers: HashMap<&str, usize> =
            names.map(|(nr, operation)| (operation.name.as_str(), nr)).collect();
        let number = |name: &String| numbers.get(name.as_str()).copied();
        let cells = self.pairs.iter().filter_map(|pair| {
            let [a, b] = pair.operations.each_ref().map(number);
            let (a, b) = (a?, b?);
            Some(([a.min(b), a.max(b)], pair))
        });
        cells.collect()
    }
}

impl Pair {
    /// The share of situations that commute, in whole per cent. It is 0 or 100 only if that is
    /// exact. `None` without situations.
    pub fn percent(&self) -> Option<u8> {
        let share = 100.0 * f64::from(self.commuting) / f64::from(self.situations);
        match (self.commuting, self.situations) {
            (_, 0) => None,
            (0, _) => Some(0),
            (some, all) if some == all => Some(100),
            _ => Some(share.round().clamp(1.0, 99.0) as u8),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(a: &str, b: &str, commuting: u32, situations: u32) -> Pair {
        Pair {
            operations: [a, b].map(str::to_owned),
            situations,
            commuting,
            cut: false,
            given_up: 0,
            commute_if_any_of: vec![vec!["a.key ≠ b.key".to_owned()]],
            differ: vec![Differing {
                situations: 1,
                all_of: vec!["a.key = b.key".to_owned(), "table[a.key]".to_owned()],
                because: "a (get) sees x in the order a, b, but y in b, a".to_owned(),
            }],
        }
    }

    fn matrix(pairs: Vec<Pair>) -> Matrix {
        let operation = |name: &str| MatrixOperation { name: name.to_owned(), about: "()".into() };
        Matrix {
            knee_version: "0.1.0".to_owned(),
            interface: "map".to_owned(),
            about: "a map".to_owned(),
            operations: ["get", "put"].map(operation).to_vec(),
            pairs,
        }
    }

    #[test]
    fn a_written_matrix_is_read_back() {
        let written = matrix(vec![pair("get", "get", 1, 1), pair("get", "put", 1, 3)]);
        assert_eq!(Matrix::from_json(&written.to_json()).unwrap(), written);
    }

    #[test]
    fn a_matrix_of_too_many_operations_is_refused() {
        let operation = |nr: usize| MatrixOperation { name: nr.to_string(), about: String::new() };
        let operations = |n| (0..n).map(operation).collect();
        let read = |n| {
            Matrix::from_json(&Matrix { operations: operations(n), ..matrix(vec![]) }.to_json())
        };
        assert!(read(1000).is_ok());
        let error = read(1001).unwrap_err().to_string();
        assert!(
            error.starts_with("it has 1001 operations, and knee reads at most 1000; "),
            "{error}"
        );
    }

    #[test]
    fn only_exact_shares_are_0_or_100_percent() {
        let percent = |commuting, situations| pair("get", "put", commuting, situations).percent();
        assert_eq!([percent(0, 3), percent(3, 3), percent(0, 0)], [Some(0), Some(100), None]);
        assert_eq!([percent(1, 1000), percent(999, 1000)], [Some(1), Some(99)]);
        assert_eq!([percent(2, 3), percent(1, 200)], [Some(67), Some(1)]);
    }

    #[test]
    fn a_file_that_is_not_a_matrix_is_refused_with_advice() {
        let refusal = |text: &str| Matrix::from_json(text).unwrap_err().to_string();
        let good = matrix(vec![pair("get", "put", 1, 3)]).to_json();
        let spoilt = |from: &str, to: &str| refusal(&good.replacen(from, to, 1));
        assert!(refusal("{").starts_with("line 1: the file is cut off; "), "{}", refusal("{"));
        for other in ["[1]", "{\"schema\": 1, \"interfaces\": []}"] {
            assert_eq!(
                refusal(other),
                "it is JSON, but not a matrix of commuting operations: `knee commute matrix \
                 --json > FILE` writes a matrix"
            );
        }
        let newer = spoilt("\"schema\": 1", "\"schema\": 2");
        assert!(newer.starts_with("it has schema 2, but this version of knee reads 1"), "{newer}");
        let lost = spoilt("\"situations\": 3,", "");
        assert!(lost.starts_with("line 42: missing field `situations`"), "{lost}");
        let above = spoilt("\"commuting\": 1", "\"commuting\": 4");
        assert!(above.starts_with("get and put commute in 4 of 3 situations; `knee"), "{above}");
        let unknown = spoilt("\"name\": \"put\"", "\"name\": \"poke\"");
        assert!(
            unknown.starts_with(
                "a pair contains the operation put, which is not \
            listed"
            ),
            "{unknown}"
        );
        let twice = matrix(vec![pair("get", "put", 1, 3), pair("put", "get", 1, 3)]).to_json();
        assert!(refusal(&twice).starts_with("the pair put and get occurs twice"));
    }
}
