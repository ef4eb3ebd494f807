//! A cache line that is shared by calls, with the functions that accessed it.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use knee_host::json::at_most;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::datum::FalselyShared;
use crate::functions::Functions;
use crate::record::{Conflict, Touch};

/// Maximum number of names of data in a line that is read. The longest list in a check of all pairs of calls of the `posix`
/// model has four.
const MAX_DATA: usize = 1_000;
/// Maximum number of callers that are recorded for a function. In a library, several of these callers
/// may have been inlined into one function.
const MAX_CALLERS: usize = 6;
/// Functions through which every system call enters the kernel. The recorded list of callers ends before
/// these functions, because they are the same for every system call.
const ENTRY_CODE: &[&str] =
    &["do_syscall_64", "x64_sys_call", "entry_SYSCALL_64_after_hwframe", "entry_SYSCALL_64"];
/// Prefix of the names of knee-bind's functions, which make the calls of a test.
const BINDING_CODE: &str = "knee_bind::";

/// A cache line that several calls accessed and at least one wrote.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SharedLine {
    /// The data in the line, if known: fields that one call wrote and another accessed, such as
    /// `file.f_count`. For false sharing, a single name of the form `written / accessed`.
    #[serde(default, deserialize_with = "at_most::<MAX_DATA, _, _>")]
    pub data: Vec<String>,
    /// Physical address of the line's first byte, in hexadecimal.
    pub line: String,
    /// Whether this is true sharing: one call accessed a byte that another call wrote.
    pub same_bytes: bool,
    /// Whether this is false sharing that depends on the address of an object: in another object of
    /// the same type, different fields share a line.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub by_position: bool,
    /// For false sharing of fields of one object: the object and the fields.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub object: Option<FalselyShared>,
    /// The accesses of each call. The key is the call's position in the test's id, counted from 0.
    pub sides: BTreeMap<usize, Touched>,
}

/// The accesses of a call to a line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Touched {
    /// The first and the last byte that the call accessed in the line.
    pub bytes: [u32; 2],
    /// Whether the call wrote to the line.
    pub wrote: bool,
    /// Functions that wrote. For writers and readers together, at most four places in the code are
    /// recorded, writers first.
    pub writers: BTreeSet<String>,
    /// Functions that read.
    pub readers: BTreeSet<String>,
    /// For each function, the call paths that led to its first accesses. A path is a list of callers, the
    /// innermost first.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub callers: BTreeMap<String, BTreeSet<Vec<String>>>,
}

impl SharedLine {
    /// The line of a conflict. Without `with_code`, `sides` is filled only if the data are unknown.
    pub(super) fn of(conflict: &Conflict, functions: &Functions, with_code: bool) -> Self {
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
            object: conflict.object.clone(),
            sides: sides.iter().map(|touch| (touch.side, Touched::of(touch, functions))).collect(),
        }
    }

    /// The names of the data in the line. If the data are unknown, returns one name, which lists
    /// the functions that write the line.
    ///
    /// If the same code accesses the same data in several runs or tests, the names are the same.
    pub fn names(&self) -> Vec<Cow<'_, str>> {
        if !self.data.is_empty() {
            return self.data.iter().map(Cow::from).collect();
        }
        let writers: BTreeSet<&str> =
            self.sides.values().flat_map(|side| &side.writers).map(String::as_str).collect();
        let writers: Vec<&str> = writers.into_iter().collect();
        vec![match writers.as_slice() {
            [] => "a line with unknown writers".into(),
            some => format!("line written by {}", some.join(", ")).into(),
        }]
    }

    /// Whether the line is a conflict between these two calls: both touched it, and one of them wrote it.
    /// A line without sides may be a conflict between any calls.
    pub(super) fn is_between(&self, calls: [usize; 2]) -> bool {
        match calls.map(|call| self.sides.get(&call)) {
            [Some(a), Some(b)] => a.wrote || b.wrote,
            _ => self.sides.is_empty(),
        }
    }

    /// Whether these two calls access a common byte of the line, and one of them wrote it, as far as the line tells:
    /// of a line that more than two calls share, it contains only the range of bytes of each.
    pub(super) fn overlaps_between(&self, calls: [usize; 2]) -> bool {
        let ranges = calls.map(|call| self.sides.get(&call).map(|side| side.bytes));
        let are_apart = matches!(ranges, [Some(a), Some(b)] if a[1] < b[0] || b[1] < a[0]);
        self.same_bytes && !are_apart && self.is_between(calls)
    }

    /// The names, separated by commas.
    pub fn name(&self) -> String {
        self.names().join(", ")
    }
}

impl Touched {
    /// These functions with the call paths that led to them, one string for each path: `down_write
    /// ← do_unlinkat ← __x64_sys_unlink`.
    pub fn ways(&self, functions: &BTreeSet<String>) -> Vec<String> {
        let of = |function: &String| match self.callers.get(function) {
            Some(ways) if !ways.is_empty() => {
                ways.iter().map(|callers| way(function, callers)).collect()
            }
            _ => vec![function.clone()],
        };
        functions.iter().flat_map(of).collect()
    }

    /// The number of functions and of call paths to them.
    pub(super) fn accesses(&self) -> usize {
        let paths: usize = self.callers.values().map(BTreeSet::len).sum();
        self.writers.len() + self.readers.len() + paths
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

/// The function that contains an address, and its callers.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn callers_are_recorded_once_each_up_to_the_entry_of_a_system_call() {
        let mut functions = Functions::default();
        let names = ["down_write", "do_unlinkat", "do_syscall_64", "entry"];
        for (nr, name) in names.iter().enumerate() {
            functions.add(0x1000 * (nr as u64 + 1), || (*name).to_owned());
        }
        let path = |functions: &Functions, code, calls: &[u64]| {
            let (function, callers) = chain(code, calls, functions);
            way(&function, &callers)
        };
        let lock = "down_write ← do_unlinkat";
        assert_eq!(path(&functions, 0x1004, &[0x2008, 0x3000, 0x4000]), lock);
        assert_eq!(path(&functions, 0x1004, &[0x1010, 0x2008, 0x2010]), lock);
        let unnamed = path(&functions, 0x1004, &[0x10, 0x2008]);
        assert_eq!(unnamed, "down_write ← 0x10 ← do_unlinkat");
        assert_eq!(path(&functions, 0x2000, &[0x3000]), "do_unlinkat");
        // An address in a library, in a function `lock` that has been inlined into `get`.
        functions.add_instruction(0x2008, ["lock", "get"].map(str::to_owned).into());
        functions.add_instruction(0x3000, vec!["knee_bind::workers::window".to_owned()]);
        assert_eq!(path(&functions, 0x1004, &[0x2008, 0x3000]), "down_write ← lock ← get");
        assert_eq!(path(&functions, 0x2008, &[0x1004]), "lock ← get ← down_write");
    }
}
