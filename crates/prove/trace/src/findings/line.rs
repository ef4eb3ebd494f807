//! A line of `tests.jsonl`: a test, and what its calls shared.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use knee_agent::Outcome;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{SCHEMA, stable};
use crate::check::{Checked, Functions};
use crate::record::{Conflict, TestResult, Touch};

/// Callers that are told of a function; of a library, as many may be inlined into one.
const MAX_CALLERS: usize = 6;
/// What every system call comes through, which says nothing of any.
const ENTRY_CODE: &[&str] =
    &["do_syscall_64", "x64_sys_call", "entry_SYSCALL_64_after_hwframe", "entry_SYSCALL_64"];
/// What makes a library's calls.
const BINDING_CODE: &str = "knee_bind::";

/// The verdict on a test.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The calls share no line that one of them writes.
    ConflictFree,
    /// They share the same data in every valid run.
    Conflict,
    /// They share something in some runs, but nothing in all runs, or only because of the position
    /// of objects.
    Sometimes,
    /// The observation was disturbed: a task was switched out, or data is missing.
    Disturbed,
    /// The test crashed the guest.
    Died,
}

/// A line of `tests.jsonl`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(title = "Test")]
pub struct TestLine {
    /// Version of this format: 1.
    pub schema: u32,
    /// Id of the test: the operations, a slash, then the situation and the pattern.
    pub test: String,
    /// The verdict.
    pub verdict: Verdict,
    /// What the calls returned, if the model does not allow it: `{"different": […]}` with the
    /// calls, or `{"not_run": "…"}` or `{"setup_failed": "…"}` with the reason.
    #[schemars(with = "Option<serde_json::Value>")]
    pub unexpected: Option<Outcome>,
    /// How the guest ended, if this test ended it.
    pub died: Option<String>,
    /// What the calls share. The verdict shows in which runs they share it.
    pub conflicts: Vec<SharedLine>,
}

/// A cache line that several calls accessed and at least one wrote.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SharedLine {
    /// The data in the line, if known: fields that one call wrote and another accessed, such as
    /// `file.f_count`. For false sharing, a single name of the form `written / accessed`.
    #[serde(default)]
    pub data: Vec<String>,
    /// Physical address of its first byte, in hexadecimal.
    pub line: String,
    /// Whether one call accessed a byte that another wrote. Otherwise, it is false sharing.
    pub same_bytes: bool,
    /// Whether it is false sharing that depends on the address of an object: in another object of
    /// the same type, different fields share a line.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub by_position: bool,
    /// The accesses of each call, by its number: from 0, in the order of the id.
    pub sides: BTreeMap<usize, Touched>,
}

/// The accesses of a call to a line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Touched {
    /// First and last byte of the line that it accessed.
    pub bytes: [u32; 2],
    /// Whether it wrote.
    pub wrote: bool,
    /// Functions that wrote, followed by functions that read, as far as space permits.
    pub writers: BTreeSet<String>,
    /// Functions that read.
    pub readers: BTreeSet<String>,
    /// For each function, the call paths of its first accesses: its innermost callers, from the
    /// nearest outward.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub callers: BTreeMap<String, BTreeSet<Vec<String>>>,
}

impl TestLine {
    /// What the runs of a test show.
    pub fn of(checked: &Checked, functions: &Functions) -> Self {
        let counted =
            || checked.runs.iter().filter(|run| !run.is_disturbed() && !run.is_incomplete());
        let last = counted().next_back();
        let lines = |run: &TestResult, all: bool| -> Vec<SharedLine> {
            run.conflicts.iter().map(|c| SharedLine::of(c, functions, all)).collect()
        };
        // To name code takes longer than the rest. Only that of lines that are told is wanted, and
        // mostly these are of the last run.
        let runs = |all: bool| -> Vec<Vec<SharedLine>> {
            let is_last = |run| last.is_some_and(|last| std::ptr::eq(last, run));
            counted().map(|run| lines(run, all || is_last(run))).collect()
        };
        let (verdict, conflicts) = match checked.outcome {
            Ok(_) => match stable::verdict(runs(false)) {
                (Verdict::Sometimes, _) => stable::verdict(runs(true)),
                told => told,
            },
            Err(_) => (Verdict::Died, Vec::new()),
        };
        let (unexpected, died) = match &checked.outcome {
            Ok(Outcome::AsExpected) => (None, None),
            Ok(other) => (Some(other.clone()), None),
            Err(end) => (None, Some(end.to_string())),
        };
        let test = checked.id.clone();
        Self { schema: SCHEMA, test, verdict, unexpected, died, conflicts }
    }

    /// The names of its calls.
    pub fn operations(&self) -> Vec<&str> {
        let names = self.test.split_once('/').map_or(self.test.as_str(), |(names, _)| names);
        names.split(',').collect()
    }

    /// What its calls share in every run, each once.
    pub fn data(&self) -> BTreeSet<String> {
        match self.verdict {
            Verdict::Conflict => self.conflicts.iter().flat_map(SharedLine::names).collect(),
            _ => BTreeSet::new(),
        }
    }

    /// One line, with its end.
    pub fn to_line(&self) -> String {
        serde_json::to_string(self).expect("all keys of plain data are text") + "\n"
    }

    /// Reads a line.
    ///
    /// # Errors
    /// What is wrong with it, in words that go on from its place.
    pub fn parse(line: &[u8]) -> Result<Self, String> {
        #[derive(Deserialize)]
        struct Versioned {
            schema: u32,
        }
        // The place of the line is told by who reads it.
        let told = |error: serde_json::Error| error.to_string().replace(" at line 1 ", " at ");
        let read: Result<Self, _> = serde_json::from_slice(line);
        match (&read, serde_json::from_slice(line)) {
            (_, Ok(Versioned { schema })) if schema != SCHEMA => {
                Err(format!("it has schema {schema}, but this knee reads {SCHEMA}"))
            }
            (Ok(test), _) if test.operations().iter().any(|name| name.is_empty()) => {
                Err(format!("{:?} contains no operations", test.test))
            }
            _ => read.map_err(told),
        }
    }
}

impl SharedLine {
    /// With the code of its sides, or without that of which no name has to do.
    fn of(conflict: &Conflict, functions: &Functions, with_code: bool) -> Self {
        let data = match &conflict.datum {
            None => Vec::new(),
            Some(datum) if conflict.overlap => datum.fields.clone(),
            Some(datum) => vec![datum.to_string()],
        };
        let sides = if with_code || data.is_empty() { &conflict.sides[..] } else { &[] };
        Self {
            data,
            line: format!("{:#x}", conflict.line),
            same_bytes: conflict.overlap,
            by_position: conflict.by_position,
            sides: sides.iter().map(|touch| (touch.side, Touched::of(touch, functions))).collect(),
        }
    }

    /// What is there: the data, or the line by who writes it.
    ///
    /// Names are the same in every run and in every test, as far as the kernel does the same.
    pub fn names(&self) -> Vec<String> {
        if !self.data.is_empty() {
            return self.data.clone();
        }
        let writers: BTreeSet<&str> =
            self.sides.values().flat_map(|side| &side.writers).map(String::as_str).collect();
        let writers: Vec<&str> = writers.into_iter().collect();
        vec![match writers.as_slice() {
            [] => "a line with unknown writers".to_owned(),
            some => format!("line written by {}", some.join(", ")),
        }]
    }

    /// All names in one text.
    pub fn name(&self) -> String {
        self.names().join(", ")
    }
}

impl Touched {
    /// These functions in the ways in which the call came there, a text each:
    /// `down_write ← do_unlinkat ← __x64_sys_unlink`.
    pub fn ways(&self, functions: &BTreeSet<String>) -> Vec<String> {
        let of = |function: &String| match self.callers.get(function) {
            Some(ways) if !ways.is_empty() => {
                ways.iter().map(|callers| way(function, callers)).collect()
            }
            _ => vec![function.clone()],
        };
        functions.iter().flat_map(of).collect()
    }

    fn of(touch: &Touch, functions: &Functions) -> Self {
        let mut callers: BTreeMap<String, BTreeSet<Vec<String>>> = BTreeMap::new();
        let mut learn = |(code, calls): (u64, &[u64])| {
            let (function, chain) = chain(code, calls, functions);
            if !chain.is_empty() {
                let chain = chain.into_iter().map(Cow::into_owned).collect();
                let ways = match callers.get_mut(&*function) {
                    Some(ways) => ways,
                    None => callers.entry(function.clone().into_owned()).or_default(),
                };
                ways.insert(chain);
            }
            function.into_owned()
        };
        Self {
            bytes: [touch.first, touch.last],
            wrote: touch.written != 0,
            writers: touch.called_writers().map(&mut learn).collect(),
            readers: touch.called_readers().map(&mut learn).collect(),
            callers,
        }
    }
}

/// A function and its callers, as text.
pub fn way<C: AsRef<str>>(function: &str, callers: impl IntoIterator<Item = C>) -> String {
    callers
        .into_iter()
        .fold(function.to_owned(), |way, caller| format!("{way} ← {}", caller.as_ref()))
}

/// The function that code is in, and its callers.
fn chain<'f>(
    code: u64,
    calls: &[u64],
    functions: &'f Functions,
) -> (Cow<'f, str>, Vec<Cow<'f, str>>) {
    let frames = |code: u64| {
        let mut named = functions.frames(code).map(Cow::from).peekable();
        let unnamed = named.peek().is_none().then(|| format!("{code:#x}").into());
        named.chain(unnamed)
    };
    let mut names = std::iter::once(&code).chain(calls).copied().flat_map(frames);
    let function = names.next().unwrap_or_default();
    let is_entry = |name: &str| ENTRY_CODE.contains(&name) || name.starts_with(BINDING_CODE);
    let mut callers: Vec<Cow<'f, str>> = Vec::new();
    for name in names.take_while(|name| !is_entry(name)) {
        if callers.last().unwrap_or(&function) != &name {
            callers.push(name);
        }
    }
    callers.truncate(MAX_CALLERS);
    (function, callers)
}

/// The JSON schema of a line of `tests.jsonl`.
pub fn test_schema() -> serde_json::Value {
    schemars::schema_for!(TestLine).to_value()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use snapbox::assert_data_eq;

    use super::super::samples::{any_line, conflicting, free};
    use super::*;

    #[test]
    fn the_committed_schema_is_that_of_the_code() {
        let schema = format!("{:#}\n", test_schema());
        assert_data_eq!(schema, snapbox::file!["../../schemas/check-test.schema.json"].raw());
    }

    #[test]
    fn a_datum_is_a_name_and_so_are_the_writers_of_what_has_none() {
        let line = conflicting("open,close/0.0", &["file.f_count", "?fput fget"]);
        let names: Vec<String> = line.data().into_iter().collect();
        assert_eq!(names, ["file.f_count", "line written by fget, fput"]);
        assert_eq!(line.operations(), ["open", "close"]);
        assert!(free("open,close/0.1").data().is_empty());
    }

    #[test]
    fn a_line_of_another_schema_is_refused_before_anything_else() {
        let error = TestLine::parse(br#"{"schema":2,"tests":[]}"#).unwrap_err();
        assert_eq!(error, "it has schema 2, but this knee reads 1");
        let error = TestLine::parse(br#"{"schema":1,"test":"a,b/0"}"#).unwrap_err();
        assert!(error.contains("verdict"), "{error}");
        let nameless = free("open,/0.0").to_line();
        assert_eq!(
            TestLine::parse(nameless.as_bytes()).unwrap_err(),
            "\"open,/0.0\" contains no operations"
        );
    }

    #[test]
    fn callers_are_told_once_each_up_to_where_all_system_calls_come_from() {
        let mut functions = Functions::default();
        let names = ["down_write", "do_unlinkat", "do_syscall_64", "entry"];
        for (nr, name) in names.iter().enumerate() {
            functions.add(0x1000 * (nr as u64 + 1), || (*name).to_owned());
        }
        let told = |functions: &Functions, code, calls: &[u64]| {
            let (function, callers) = chain(code, calls, functions);
            way(&function, &callers)
        };
        let lock = "down_write ← do_unlinkat";
        assert_eq!(told(&functions, 0x1004, &[0x2008, 0x3000, 0x4000]), lock);
        assert_eq!(told(&functions, 0x1004, &[0x1010, 0x2008, 0x2010]), lock);
        let unnamed = told(&functions, 0x1004, &[0x10, 0x2008]);
        assert_eq!(unnamed, "down_write ← 0x10 ← do_unlinkat");
        assert_eq!(told(&functions, 0x2000, &[0x3000]), "do_unlinkat");
        // A library's function that two others have been inlined into.
        functions.add_instruction(0x2008, ["lock", "get"].map(str::to_owned).into());
        functions.add_instruction(0x3000, vec!["knee_bind::workers::window".to_owned()]);
        assert_eq!(told(&functions, 0x1004, &[0x2008, 0x3000]), "down_write ← lock ← get");
        assert_eq!(told(&functions, 0x2008, &[0x1004]), "lock ← get ← down_write");
    }

    #[test]
    fn a_line_of_before_data_had_names_is_read() {
        let line = conflicting("open,close/0.0", &["?fput"]).to_line();
        let without = line.replace("\"data\":[],", "");
        assert_ne!(without, line);
        assert_eq!(TestLine::parse(without.as_bytes()).unwrap().to_line(), line);
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(line in any_line()) {
            let text = line.to_line();
            prop_assert_eq!(text.find('\n'), Some(text.len() - 1));
            prop_assert_eq!(TestLine::parse(text.as_bytes()), Ok(line));
        }
    }
}
