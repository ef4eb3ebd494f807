//! The agent as a process of the host: it reads tests from standard input and writes their outcomes
//! to standard output, both as lines of JSON.

use knee_plan::PROCESSES;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, LineWriter, Write};
use std::os::fd::FromRawFd;

use knee_commute::Test;
use serde::{Deserialize, Serialize};

use crate::Outcome;
use crate::cleanup;
use crate::cost;
use crate::fault;
use crate::layout::OWN;
use crate::plan::plan;
use crate::run::{outcome, run};
use crate::workers::Workers;

/// The argument that selects every order of the calls.
pub const EVERY_ORDER: &str = "every-order";

/// The argument that makes the agent repeat an operation instead of running tests. The name of the operation
/// and the number of rounds follow this argument.
pub const REPEAT: &str = "repeat";

/// A line of the output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Line {
    /// The ID of a test and its outcome.
    Test(String, Outcome),
    /// All tests are done.
    Done(Summary),
}

/// A summary of all tests.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Summary {
    /// The number of tests.
    pub tests: usize,
    /// The number of tests whose calls returned only results that the model allows.
    pub as_expected: usize,
    /// The reasons why tests were not run, and the number of tests for each.
    pub not_run: BTreeMap<String, usize>,
}

/// Runs the tests in the working directory, which must be empty. Returns the exit status: 0 if the
/// agent has written an outcome for every test, 1 if the agent itself failed.
pub fn main() -> i32 {
    let arguments: Vec<String> = std::env::args().collect();
    let done = match &arguments[..] {
        [.., command, operation, rounds] if command == REPEAT => {
            let rounds = rounds.parse().map_err(io::Error::other);
            rounds.and_then(|rounds| cost::repeat(operation, rounds))
        }
        _ => work(arguments.iter().any(|argument| argument == EVERY_ORDER)),
    };
    match done {
        Ok(()) => 0,
        Err(_) => 1,
    }
}

fn work(every_order: bool) -> io::Result<()> {
    let [tests, mut outcomes] = [own(0)?, own(1)?];
    let mut out = LineWriter::new(&mut outcomes);
    let mut write = |line: &Line| {
        serde_json::to_writer(&mut out, line)?;
        out.write_all(b"\n")
    };
    fault::install();
    // Inherited descriptors may have numbers that tests use.
    cleanup::sweep();
    let workers = Workers::start(PROCESSES)?;
    let mut summary = Summary::default();
    for line in BufReader::new(tests).lines() {
        let (id, outcome) = match serde_json::from_str::<Test>(&line?) {
            Ok(test) => {
                let outcome = one(&workers, &test, every_order);
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
        write(&Line::Test(id, outcome))?;
    }
    write(&Line::Done(summary))
}

fn one(workers: &Workers, test: &Test, every_order: bool) -> Outcome {
    match plan(test, every_order) {
        Ok(plan) => outcome(&run(workers, &plan, 1, |_| false).0, test, &plan),
        Err(why) => Outcome::NotRun(why),
    }
}

/// Moves a descriptor to a number that no test uses.
pub(crate) fn own(fd: i32) -> io::Result<File> {
    raise_limit();
    // SAFETY: these are plain system calls; only the returned file owns the new descriptor.
    unsafe {
        let own = libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, OWN);
        if own < 0 {
            return Err(io::Error::last_os_error());
        }
        libc::close(fd);
        Ok(File::from_raw_fd(own))
    }
}

/// Raises the soft limit on open descriptors to the hard limit.
fn raise_limit() {
    // SAFETY: `rlimit` is plain data, so zeroes are valid.
    unsafe {
        let mut limit: libc::rlimit = std::mem::zeroed();
        if libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) == 0 {
            limit.rlim_cur = limit.rlim_max;
            libc::setrlimit(libc::RLIMIT_NOFILE, &limit);
        }
    }
}
