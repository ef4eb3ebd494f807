//! Tests in a guest: what the calls returned, and which lines of memory they shared.

use std::collections::{BTreeMap, VecDeque};

use knee_agent::{CONSOLE, Outcome, Runs, SYMBOL};

use crate::error::GuestError;
use crate::guest::{End, Event, Guest, GuestOptions};
use crate::initramfs::Initramfs;
use crate::kernel::Kernel;
use crate::record::{Record, TestResult};

/// How a test went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// The calls share no line that one of them writes.
    ConflictFree,
    /// They do, in every run after the first.
    Conflict,
    /// They do in some runs and not in others: a cache that is refilled now and then.
    Sometimes,
    /// They were not observed in peace: a task was switched out, or something is missing.
    Disturbed,
}

/// A test that has been run.
#[derive(Debug, Clone)]
pub struct Checked {
    /// Its id.
    pub id: String,
    /// What the calls returned.
    pub outcome: Outcome,
    /// Its runs but the first, which fills caches.
    pub runs: Vec<TestResult>,
}

impl Checked {
    /// What its runs show.
    pub fn verdict(&self) -> Verdict {
        let sound = |run: &&TestResult| !run.is_disturbed() && !run.is_incomplete();
        let runs: Vec<&TestResult> = self.runs.iter().filter(sound).collect();
        let free = runs.iter().filter(|run| run.is_conflict_free()).count();
        match (free, runs.len()) {
            (_, 0) => Verdict::Disturbed,
            (0, _) => Verdict::Conflict,
            (free, all) if free == all => Verdict::ConflictFree,
            _ => Verdict::Sometimes,
        }
    }
}

/// Functions of the guest's kernel, by address.
#[derive(Debug, Clone, Default)]
pub struct Functions(BTreeMap<u64, String>);

impl Functions {
    /// The function that the code at an address is in.
    pub fn at(&self, address: u64) -> Option<&str> {
        self.0.range(..=address).next_back().map(|(_, name)| name.as_str())
    }

    fn learn(&mut self, line: &str) {
        let Some((address, name)) = line.split_once(' ') else { return };
        if let Ok(address) = u64::from_str_radix(address, 16) {
            self.0.entry(address).or_insert_with(|| name.to_owned());
        }
    }
}

/// Why tests were not checked.
#[derive(Debug, thiserror::Error)]
pub enum CheckError {
    /// The guest could not be started or listened to.
    #[error(transparent)]
    Guest(#[from] GuestError),
    /// The agent could not do its work.
    #[error("the agent in the guest says: {0}")]
    Agent(String),
}

/// Runs `tests`, a line of JSON each, in a guest with this kernel; tells each when all of it is
/// known, and ends with how the guest did.
pub fn check(
    kernel: &Kernel,
    tests: &[u8],
    options: &GuestOptions,
    mut tell: impl FnMut(Checked, &Functions) -> std::ops::ControlFlow<()>,
) -> Result<End, CheckError> {
    let files = Initramfs::new()
        .file("init", 0o755, knee_artefacts::AGENT)
        .file("tests.jsonl", 0o644, tests)
        .finish();
    let mut guest = Guest::start(kernel, &files, options)?;
    let mut functions = Functions::default();
    // Results come before or after what the agent says of them: two pipes, in no order.
    let mut results: BTreeMap<u64, TestResult> = BTreeMap::new();
    let mut waiting: VecDeque<(String, Outcome, Runs)> = VecDeque::new();
    let mut end = End::Died("it said nothing".to_owned());
    while let Some(event) = guest.next_event()? {
        match event {
            Event::Console(line) => {
                if let Some(symbol) = line.strip_prefix(SYMBOL) {
                    functions.learn(symbol);
                } else if let Some(said) = line.strip_prefix(CONSOLE) {
                    match serde_json::from_str(said) {
                        Ok(told) => waiting.push_back(told),
                        Err(_) => return Err(CheckError::Agent(said.to_owned())),
                    }
                }
            }
            Event::Result(Record::Test(result)) => {
                results.insert(result.test, result);
            }
            Event::Result(_) => {}
            Event::End(how) => end = how,
        }
        while let Some((_, _, runs)) = waiting.front()
            && (runs.first..runs.first + runs.count).all(|run| results.contains_key(&run))
        {
            let Some((id, outcome, runs)) = waiting.pop_front() else { break };
            let all = runs.first..runs.first + runs.count;
            let mut runs: Vec<TestResult> = all.filter_map(|run| results.remove(&run)).collect();
            if runs.len() > 1 {
                runs.remove(0);
            }
            if tell(Checked { id, outcome, runs }, &functions).is_break() {
                return Ok(end);
            }
        }
    }
    Ok(end)
}
