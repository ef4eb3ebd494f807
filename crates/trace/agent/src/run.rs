//! All tests, one after the other.

use std::collections::BTreeMap;
use std::io::BufRead;

use knee_commute::{Expect, TEST_SCHEMA, Test};
use knee_marks::Mark;
use serde::{Deserialize, Serialize};

use crate::compare::Meaning;
use crate::fault;
use crate::plan::{Plan, Step};
use crate::returned::Returned;
use crate::steps;
use crate::workers::{CALLS, Command, PROCESSES, Result as Worked, Workers};

/// What to do with tests.
#[derive(Debug, Clone, Copy, Default)]
pub struct Options {
    /// Every order of the calls, each with a set-up of its own; else only the first one.
    pub every_order: bool,
    /// How often each order is run.
    pub times: u32,
}

/// The runs of a test, among all that there have been.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Runs {
    /// How many runs were made before, of other tests.
    pub first: u64,
    /// How many were made of this one.
    pub count: u64,
}

/// What came of a test.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// All calls returned what the model says.
    AsExpected,
    /// Some did not.
    Different(Vec<Finding>),
    /// It could not be run: the agent has no way to do what it asks for.
    NotRun(String),
    /// A step of its set-up failed.
    SetupFailed(String),
}

/// A call that returned something else than the model says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// The order of the calls: `ab`.
    pub order: String,
    /// Which call: `a`.
    pub call: String,
    /// What the model says, as in the test.
    pub expected: String,
    /// What it returned.
    pub returned: String,
}

/// Of all tests.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Summary {
    /// How many there were.
    pub tests: usize,
    /// In how many all was as the model says.
    pub as_expected: usize,
    /// Why tests were not run, and how many were not.
    pub not_run: BTreeMap<String, usize>,
}

/// Runs the tests in `lines` in the working directory, which has to be empty, and tells the outcome
/// of each with its id. The process has to be the agent's own: its descriptors and memory are used
/// for tests.
pub fn run(
    lines: impl BufRead,
    options: Options,
    mut tell: impl FnMut(&str, &Outcome, Runs) -> std::io::Result<()>,
) -> std::io::Result<Summary> {
    fault::install();
    let workers = Workers::start(CALLS)?;
    let mut summary = Summary::default();
    let mut runs = Runs::default();
    for line in lines.lines() {
        let line = line?;
        let (id, outcome) = match serde_json::from_str::<Test>(&line) {
            Ok(test) if test.schema != TEST_SCHEMA => {
                let what = format!("a test of schema {}", test.schema);
                (test.id, Outcome::NotRun(what))
            }
            Ok(test) => {
                let outcome = one(&workers, &test, options, &mut runs);
                (test.id, outcome)
            }
            Err(error) => {
                (format!("line {}", summary.tests + 1), Outcome::NotRun(error.to_string()))
            }
        };
        summary.tests += 1;
        match &outcome {
            Outcome::AsExpected => summary.as_expected += 1,
            Outcome::NotRun(why) => *summary.not_run.entry(why.clone()).or_default() += 1,
            Outcome::Different(_) | Outcome::SetupFailed(_) => {}
        }
        tell(&id, &outcome, runs)?;
        runs = Runs { first: runs.first + runs.count, count: 0 };
    }
    Ok(summary)
}

fn one(workers: &Workers, test: &Test, options: Options, runs: &mut Runs) -> Outcome {
    let plan = match Plan::of(test) {
        Ok(plan) => plan,
        Err(why) => return Outcome::NotRun(why),
    };
    let mut findings = Vec::new();
    for expect in &test.expect {
        for order in orders(expect, plan.calls.len(), options.every_order) {
            for _ in 0..options.times {
                match in_order(workers, &plan, expect, &order, runs) {
                    Ok(found) => findings.extend(found),
                    Err(why) => return Outcome::SetupFailed(why),
                }
            }
        }
    }
    if findings.is_empty() { Outcome::AsExpected } else { Outcome::Different(findings) }
}

/// The orders of which a test says what calls return.
fn orders(expect: &Expect, calls: usize, every: bool) -> Vec<Vec<usize>> {
    let first: Vec<usize> = match expect.order.as_str() {
        "any" => (0..calls).collect(),
        order => order.bytes().map(|label| usize::from(label - b'a')).collect(),
    };
    if expect.order != "any" || !every {
        return vec![first];
    }
    first.iter().fold(vec![Vec::new()], |orders, _| {
        let longer = |order: &Vec<usize>| {
            let order = order.clone();
            let left = (0..calls).filter(|nr| !order.contains(nr)).collect::<Vec<_>>();
            left.into_iter().map(move |nr| [&order[..], &[nr]].concat())
        };
        orders.iter().flat_map(longer).collect()
    })
}

fn in_order(
    workers: &Workers,
    plan: &Plan,
    expect: &Expect,
    order: &[usize],
    runs: &mut Runs,
) -> Result<Vec<Finding>, String> {
    let mut meaning = Meaning::default();
    let set_up = set_up(workers, plan, &mut meaning);
    let mut returned = vec![Returned::Nothing; plan.calls.len()];
    if set_up.is_ok() {
        Mark::Begin.say();
        runs.count += 1;
        for &nr in order {
            let (process, call) = plan.calls[nr];
            if let Worked::Returned(seen) = workers.tell(process.into(), nr, Command::Call(call)) {
                returned[nr] = seen;
            }
        }
        Mark::End.say();
    }
    for process in 0..PROCESSES {
        workers.tell(process, process, Command::Clean);
    }
    steps::clean_files();
    set_up?;
    let mut findings = Vec::new();
    for &nr in order {
        let expected = &expect.results[nr];
        if !meaning.is(expected, returned[nr], plan.calls[nr].0) {
            findings.push(Finding {
                order: order.iter().map(|nr| label(*nr)).collect(),
                call: label(nr).to_string(),
                expected: expected.to_string(),
                returned: returned[nr].show(),
            });
        }
    }
    Ok(findings)
}

fn label(nr: usize) -> char {
    char::from(b'a' + nr as u8)
}

fn set_up(workers: &Workers, plan: &Plan, meaning: &mut Meaning) -> Result<(), String> {
    for (process, step) in &plan.steps {
        if let Step::Finish { inodes, .. } = step {
            for &inode in inodes.as_slice() {
                if let Some(number) = steps::inode_number(inode) {
                    meaning.learn(&format!("inode{inode}"), number);
                }
            }
        }
        let process = usize::from(*process);
        if let Worked::Failed((what, errno)) = workers.tell(process, process, Command::Step(*step))
        {
            let error = std::io::Error::from_raw_os_error(errno);
            return Err(format!("cannot {what}: {error}"));
        }
    }
    Ok(())
}
