//! A test as plain data, which both processes can read in a shared page.

use knee_commute::{TEST_SCHEMA, Test};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::set_up;
use crate::workers::{CALLS, PROCESSES};

/// The interface that kernels have.
const INTERFACE: &str = "posix";
/// Most files, names, pages, pipes and mapped pages of a test, and data in a pipe or a file.
pub(crate) const MOST: usize = 8;
/// Most descriptors that have to be in use so that the lowest unused one is what it is.
pub(crate) const MOST_OCCUPIED: usize = 16;

/// Numbers of things of a test that are called `name0`, `name1` …
pub(crate) type Nr = u8;

/// A list of numbers.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub(crate) struct List {
    items: [Nr; MOST],
    length: usize,
}

impl List {
    pub(crate) fn as_slice(&self) -> &[Nr] {
        &self.items[..self.length]
    }
}

/// What is in a page: zeroes, or anything, or a datum.
pub(crate) const ZEROES: Nr = Nr::MAX;
/// What tests call them.
const ZEROES_NAME: &str = "zeroes";

/// A name under which a file is found during set-up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Home {
    /// One that tests know.
    Name(Nr),
    /// The first of the inode's names that tests do not know.
    Hidden(Nr),
    /// One of the inode that has to go before the test begins.
    Own(Nr),
    /// None at any time.
    Nowhere,
}

/// A step to the initial state of a test.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) enum Step {
    /// A file, and where it is to be open or mapped.
    File {
        inode: Nr,
        home: Home,
        names: List,
        links: u8,
        pages: List,
        open: Option<Opened>,
        map: Option<Mapped>,
    },
    /// A pipe, and which descriptors of the first process its ends are to be, to read and to write.
    Pipe { data: List, ends: [i32; 2] },
    /// A descriptor of a file.
    OpenFile { home: Home, open: Opened },
    /// A descriptor of an end of a pipe, of which the first process has `end`.
    OpenPipe { fd: i32, end: i32, write: bool },
    /// A descriptor of anything.
    Occupy { fd: i32 },
    /// A page of anonymous memory.
    MapAnonymous { va: Nr, writable: bool, datum: Nr },
    /// A page of a file.
    MapFile { home: Home, map: Mapped },
    /// The number of an inode is needed to tell what a call returned.
    Learn { inode: Nr, home: Home },
    /// The same of a file that this process has open.
    LearnOpen { inode: Nr, fd: i32 },
    /// A name that only the steps needed goes.
    Forget { inode: Nr },
    /// So does a descriptor.
    Close { fd: i32 },
}

/// A descriptor of a file; the offset is in pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Opened {
    pub(crate) fd: i32,
    pub(crate) off: i64,
}

/// Where a page of a file is mapped; the offset is in pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Mapped {
    pub(crate) va: Nr,
    pub(crate) writable: bool,
    pub(crate) off: i64,
}

/// How a call of lseek counts.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) enum Whence {
    Set,
    Cur,
    End,
    Invalid,
}

/// A call with its arguments; offsets are in pages.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) enum Call {
    Open { name: Nr, creat: bool, excl: bool, trunc: bool, anyfd: bool },
    Link { old: Nr, new: Nr },
    Unlink { name: Nr },
    Rename { old: Nr, new: Nr },
    Stat { name: Nr },
    Fstat { fd: i32 },
    Lseek { fd: i32, off: i64, whence: Whence },
    Close { fd: i32 },
    Pipe,
    Read { fd: i32 },
    Write { fd: i32, datum: Nr },
    Pread { fd: i32, off: i64 },
    Pwrite { fd: i32, off: i64, datum: Nr },
    Mmap { fd: Option<i32>, off: i64, writable: bool, va: Option<Nr> },
    Munmap { va: Nr },
    Mprotect { va: Nr, writable: bool },
    Memread { va: Nr },
    Memwrite { va: Nr, datum: Nr },
}

/// An order in which the calls are made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Order {
    /// Which of the test's expectations says what they return.
    pub(crate) expect: usize,
    pub(crate) calls: Vec<usize>,
}

/// A test that can be run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Plan {
    /// Each with the process that does it.
    pub(crate) steps: Vec<(u8, Step)>,
    /// Each with the process that makes it.
    pub(crate) calls: Vec<(u8, Call)>,
    /// Each with a set-up of its own.
    pub(crate) orders: Vec<Order>,
}

/// Why a test cannot be run: a word that is not known, or too much of something.
pub(crate) type Unknown = String;

impl Plan {
    /// The plan of a test of the interface `posix`: every order of its calls, or only the first one
    /// of each expectation. Fails with why it cannot be run.
    pub fn of(test: &Test, every_order: bool) -> Result<Self, Unknown> {
        if test.schema != TEST_SCHEMA {
            return Err(format!("the test has an unknown schema, {}", test.schema));
        }
        if test.interface != INTERFACE {
            return Err(format!("a test of {}, and only {INTERFACE} is known", test.interface));
        }
        let calls = test.calls.iter().map(|made| {
            let call = call(&made.operation, &Value::Object(made.arguments.clone()))?;
            Ok((made.process, call))
        });
        let calls: Vec<(u8, Call)> = calls.collect::<Result<_, Unknown>>()?;
        if calls.len() > CALLS {
            return Err(format!("more than {CALLS} calls"));
        }
        let stats = |(_, call): &(u8, Call)| matches!(call, Call::Stat { .. } | Call::Fstat { .. });
        let steps = set_up::steps(&test.setup, calls.iter().any(stats))?;
        let mut orders = Vec::new();
        for (nr, expect) in test.expect.iter().enumerate() {
            let own = expect
                .calls(calls.len())
                .ok_or("an order contains a call that the test does not have")?;
            let of_expect = match every_order && expect.is_of_any_order() {
                true => permutations(calls.len()),
                false => vec![own],
            };
            orders.extend(of_expect.into_iter().map(|calls| Order { expect: nr, calls }));
        }
        let plan = Self { steps, calls, orders };
        if plan.processes() > PROCESSES {
            return Err(format!("more than {PROCESSES} processes"));
        }
        Ok(plan)
    }

    /// Numbers of the calls that enter the kernel whatever the state is.
    pub fn system_calls(&self) -> impl Iterator<Item = usize> {
        let in_memory = |call: &Call| matches!(call, Call::Memread { .. } | Call::Memwrite { .. });
        let calls = self.calls.iter().enumerate();
        calls.filter(move |(_, (_, call))| !in_memory(call)).map(|(nr, _)| nr)
    }

    /// How many processes have anything to do; the first always counts.
    pub(crate) fn processes(&self) -> usize {
        let of_steps = self.steps.iter().map(|(process, _)| *process);
        let of_calls = self.calls.iter().map(|(process, _)| *process);
        of_steps.chain(of_calls).max().map_or(1, |last| usize::from(last) + 1)
    }
}

/// Every order of so many calls.
fn permutations(calls: usize) -> Vec<Vec<usize>> {
    (0..calls).fold(vec![Vec::new()], |orders, _| {
        let longer = |order: &Vec<usize>| {
            let order = order.clone();
            let left = (0..calls).filter(|nr| !order.contains(nr)).collect::<Vec<_>>();
            left.into_iter().map(move |nr| [&order[..], &[nr]].concat())
        };
        orders.iter().flat_map(longer).collect()
    })
}

impl List {
    pub(crate) fn push(&mut self, nr: Nr) -> Result<(), Unknown> {
        let place = self.items.get_mut(self.length);
        *place.ok_or_else(|| format!("more than {MOST} of a kind"))? = nr;
        self.length += 1;
        Ok(())
    }
}

/// A call by the name of its operation. Arguments that make no difference are absent.
fn call(operation: &str, given: &Value) -> Result<Call, Unknown> {
    let flag = |what: &str| given[what] == true;
    let off = || number(given, "off").unwrap_or(0);
    Ok(match operation {
        "open" => Call::Open {
            name: name(given, "name")?,
            creat: flag("creat"),
            excl: flag("excl"),
            trunc: flag("trunc"),
            anyfd: flag("anyfd"),
        },
        "link" => Call::Link { old: name(given, "old")?, new: name(given, "new")? },
        "unlink" => Call::Unlink { name: name(given, "name")? },
        "rename" => Call::Rename { old: name(given, "old")?, new: name(given, "new")? },
        "stat" => Call::Stat { name: name(given, "name")? },
        "fstat" => Call::Fstat { fd: fd(given)? },
        "lseek" => {
            let whence = match given["whence"].as_str() {
                None | Some("SEEK_SET") => Whence::Set,
                Some("SEEK_CUR") => Whence::Cur,
                Some("SEEK_END") => Whence::End,
                Some(_) => Whence::Invalid,
            };
            Call::Lseek { fd: fd(given)?, off: off(), whence }
        }
        "close" => Call::Close { fd: fd(given)? },
        "pipe" => Call::Pipe,
        "read" => Call::Read { fd: fd(given)? },
        "write" => Call::Write { fd: fd(given)?, datum: datum(given) },
        "pread" => Call::Pread { fd: fd(given)?, off: off() },
        "pwrite" => Call::Pwrite { fd: fd(given)?, off: off(), datum: datum(given) },
        "mmap" => Call::Mmap {
            fd: if flag("anonymous") { None } else { Some(fd(given)?) },
            off: off(),
            writable: flag("writable"),
            va: if flag("fixed") { Some(name(given, "va")?) } else { None },
        },
        "munmap" => Call::Munmap { va: name(given, "va")? },
        "mprotect" => Call::Mprotect { va: name(given, "va")?, writable: flag("writable") },
        "memread" => Call::Memread { va: name(given, "va")? },
        "memwrite" => Call::Memwrite { va: name(given, "va")?, datum: datum(given) },
        other => return Err(format!("no operation {other}")),
    })
}

pub(crate) fn text<'v>(value: &'v Value, field: &str) -> Result<&'v str, Unknown> {
    value[field].as_str().ok_or_else(|| format!("no {field}"))
}

pub(crate) fn number(value: &Value, field: &str) -> Result<i64, Unknown> {
    value[field].as_i64().ok_or_else(|| format!("no {field}"))
}

pub(crate) fn fd(value: &Value) -> Result<i32, Unknown> {
    number(value, "fd").map(|fd| fd as i32)
}

pub(crate) fn name(value: &Value, field: &str) -> Result<Nr, Unknown> {
    name_nr(text(value, field)?)
}

pub(crate) fn names(value: &Value, field: &str) -> Result<List, Unknown> {
    let mut list = List::default();
    for item in value[field].as_array().ok_or_else(|| format!("no {field}"))? {
        list.push(item.as_str().map_or(Ok(ZEROES), datum_nr)?)?;
    }
    Ok(list)
}

/// A datum that makes no difference is the first.
pub(crate) fn datum(given: &Value) -> Nr {
    given["datum"].as_str().and_then(|name| datum_nr(name).ok()).unwrap_or(0)
}

/// The number of a datum.
pub(crate) fn datum_nr(name: &str) -> Result<Nr, Unknown> {
    if name == ZEROES_NAME { Ok(ZEROES) } else { name_nr(name) }
}

/// The number at the end of a name.
pub(crate) fn name_nr(name: &str) -> Result<Nr, Unknown> {
    let digits = name.trim_start_matches(|c: char| !c.is_ascii_digit());
    let nr: Nr = digits.parse().map_err(|_| format!("{name} has no number"))?;
    if usize::from(nr) < MOST { Ok(nr) } else { Err(format!("{name}: more than {MOST} of a kind")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn test(setup: Value, calls: Value) -> Test {
        serde_json::from_value(json!({
            "schema": 1, "id": "x/0.0", "interface": "posix", "commute": true,
            "condition": [], "pattern": [], "setup": setup, "calls": calls, "expect": [],
        }))
        .unwrap()
    }

    fn call(operation: &str, arguments: Value) -> Value {
        json!([{ "label": "a", "operation": operation, "process": 1, "thread": 0, "cpu": 0,
                 "arguments": arguments }])
    }

    #[test]
    fn what_is_not_known_is_named() {
        let told = |setup, calls| Plan::of(&test(setup, calls), false).unwrap_err();
        let none = || json!([]);
        assert_eq!(told(none(), call("fork", json!({}))), "no operation fork");
        assert_eq!(told(json!([{ "do": "dance" }]), none()), "no way to dance");
        assert_eq!(told(none(), call("stat", json!({}))), "no name");
        let many = call("stat", json!({ "name": "filename8" }));
        assert_eq!(told(none(), many), "filename8: more than 8 of a kind");
    }

    proptest! {
        #[test]
        fn no_set_up_and_no_arguments_are_too_odd(
            what in "(file|pipe|open|occupy|map|leave)",
            field in "(inode|names|pages|pipe|data|readers|fd|fds|off|va|end|links)",
            value in prop_oneof![
                Just(Value::Null),
                any::<i64>().prop_map(Value::from),
                any::<bool>().prop_map(Value::from),
                "\\PC{0,12}".prop_map(Value::from),
                proptest::collection::vec(any::<i64>(), 0..20).prop_map(Value::from),
            ],
            operation in "(open|lseek|pwrite|mmap|memread)",
        ) {
            let step = json!({
                "do": what, "inode": "inode0", "names": ["filename0"], "pages": [null], "links": 1,
                "pipe": "pipe0", "data": [], "readers": 1, "writers": 1, "fd": 3, "fds": [1],
                "off": 0, "va": "va0", "end": "read", "datum": "datum0",
            });
            let mut step = step;
            step[&field] = value.clone();
            let call = call(&operation, json!({ field: value }));
            let _ = Plan::of(&test(json!([step]), call), true);
        }
    }
}
