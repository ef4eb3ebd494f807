//! `knee commute verify`.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use anyhow::Context;
use knee_agent::{EVERY_ORDER, Line, Outcome, SUBCOMMAND, Summary};
use knee_commute::Wanted;
use knee_host::number::plural;
use knee_host::process::{Tied, Ties, spawn};
use knee_host::workdir::WorkDir;

use super::sets::{Sets, tests_of};
use super::test_lines::{heads, posix, read};
use crate::exit::{ExitStatus, ensure_usage};
use crate::interrupt;
use crate::progress::{Amount, Progress};
use crate::stderr::tell;
use crate::stdout;

/// A directory on tmpfs.
const TMPFS: &str = "/dev/shm";
/// A test takes a millisecond; knee treats a longer one as hung after this time.
const HANGS_AFTER: Duration = Duration::from_secs(20);
/// Interval between checks for an interrupt or a hung test.
const POLL: Duration = Duration::from_millis(100);
/// Maximum tests to print for each kind of difference.
const MOST_SHOWN: usize = 3;

/// Run the tests on this kernel, one call at a time, and compare the results with the model
///
/// For each test, knee sets up the initial state, makes the calls, and compares their results with
/// the model. If the calls commute, knee tries every order; otherwise knee tries each order
/// that the test lists. The comparison shows whether the model describes this kernel correctly. To
/// find memory conflicts, use `knee commute check`. The tests work in a directory of their own and
/// need no privileges.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  knee commute verify                         every operation and every pair
  knee commute verify rename link             only this pair
  knee commute verify rename link --calls 3   every set of three with this pair
  knee commute verify --dir /mnt/scratch      on another file system
  knee commute verify --tests tests.jsonl --json | jq 'select(.test[1] != \"as_expected\")'

Exit status:
  1  a result differs from the model")]
pub(super) struct Args {
    #[command(flatten)]
    sets: Sets,

    /// File of tests from `knee commute tests`; - is standard input
    #[arg(long, value_name = "FILE", conflicts_with_all = ["operations", "calls"])]
    tests: Option<PathBuf>,

    /// Directory in which knee creates the work directory of the tests [default: /dev/shm, or
    /// $TMPDIR or /tmp if there is no /dev/shm]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,

    /// Print one line of JSON for each test, and a summary line at the end
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args) -> anyhow::Result<ExitStatus> {
    let tests = match &args.tests {
        Some(file) => read(file)?,
        None => {
            let model = posix();
            let wanted = Wanted { differing: true, ..Wanted::default() };
            tests_of(&*model, &args.sets.of(&*model, true)?, &wanted)?
        }
    };
    let interrupt = interrupt::poll()?;
    let count = heads(&tests)?.len();
    // A lost file would look like tests that passed.
    ensure_usage!(count > 0, "there are no tests to run");
    let parent = match &args.dir {
        Some(dir) => dir.clone(),
        None if Path::new(TMPFS).is_dir() => TMPFS.into(),
        None => std::env::temp_dir(),
    };
    let mut work =
        WorkDir::create(&parent).with_context(|| format!("cannot use {}", parent.display()))?;
    let dir = work.begin_round()?;
    let mut agent = Agent::start(&dir, tests)?;
    let mut seen = Seen::default();
    // Outcomes on standard output may share the terminal.
    let mut progress = if args.json { Progress::lines(false) } else { Progress::new(false) };
    let mut last_line = Instant::now();
    let summary = loop {
        if let Some(signal) = interrupt.take() {
            tell!("knee: {}", interrupt::message_after(&plural(seen.tests, "test")));
            return Ok(ExitStatus::Interrupted(signal));
        }
        let line = match agent.lines.recv_timeout(POLL) {
            Ok(line) => line,
            Err(RecvTimeoutError::Timeout) if last_line.elapsed() < HANGS_AFTER => continue,
            Err(RecvTimeoutError::Timeout) => {
                let seconds = HANGS_AFTER.as_secs();
                tell!("knee: {} hung for {seconds} s", seen.next());
                return Ok(ExitStatus::TestcaseDied);
            }
            Err(RecvTimeoutError::Disconnected) => {
                let status = agent.child.0.wait()?;
                tell!("knee: {} ended the process that runs the tests: {status}", seen.next());
                return Ok(ExitStatus::TestcaseDied);
            }
        };
        last_line = Instant::now();
        let parsed: Line = serde_json::from_str(&line).with_context(|| {
            format!("the process that runs the tests wrote an invalid line: {line}")
        })?;
        if args.json {
            stdout::print_json_text(&(line + "\n"))?;
        }
        match parsed {
            Line::Test(id, outcome) => seen.add(id, &outcome),
            Line::Done(summary) => break summary,
        }
        let amount = Amount { done: seen.tests as u64, of: count as u64, unit: "tests" };
        progress.show(&amount, String::new);
    };
    drop(progress);
    if !args.json {
        stdout::show(&seen.text(&summary))?;
    }
    Ok(if summary.as_expected == summary.tests { ExitStatus::Done } else { ExitStatus::Policy })
}

/// The process that runs the tests; killed when dropped.
struct Agent {
    child: Tied,
    lines: mpsc::Receiver<String>,
}

impl Agent {
    fn start(dir: &Path, tests: Vec<u8>) -> anyhow::Result<Self> {
        let mut agent = Command::new(std::env::current_exe()?);
        agent.args([SUBCOMMAND, EVERY_ORDER]).current_dir(dir);
        agent.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = spawn(&mut agent, Ties::bound()).context("cannot start the agent")?;
        let mut stdin = child.stdin.take().expect("it is piped");
        let stdout = child.stdout.take().expect("it is piped");
        // If the agent has died, the end of its output shows that.
        std::thread::spawn(move || stdin.write_all(&tests));
        let (sender, lines) = mpsc::channel();
        std::thread::spawn(move || {
            let mut all = BufReader::new(stdout).lines().map_while(Result::ok);
            all.try_for_each(|line| sender.send(line))
        });
        Ok(Self { child: Tied(child), lines })
    }
}

/// The results that the agent has reported so far.
#[derive(Default)]
struct Seen {
    tests: usize,
    last: Option<String>,
    /// Test count and the first few tests, by the kind of difference.
    different: BTreeMap<String, (usize, Vec<String>)>,
}

impl Seen {
    fn add(&mut self, id: String, outcome: &Outcome) {
        self.tests += 1;
        let mut differs = |what: String| {
            let (count, first) = self.different.entry(what).or_default();
            *count += 1;
            if first.len() < MOST_SHOWN {
                first.push(id.clone());
            }
        };
        match outcome {
            Outcome::AsExpected => {}
            Outcome::NotRun(_) | Outcome::SetupFailed(_) => differs(outcome.to_string()),
            Outcome::Different(findings) => {
                for found in findings {
                    let call = operation(&id, &found.call);
                    let (expected, returned) = (&found.expected, &found.returned);
                    differs(format!("{call} returned {returned}, expected {expected}"));
                }
            }
        }
        self.last = Some(id);
    }

    /// Describes the test that runs now.
    fn next(&self) -> String {
        self.last.as_ref().map_or("the first test".to_owned(), |id| format!("the test after {id}"))
    }

    fn text(&self, summary: &Summary) -> String {
        let Summary { tests, as_expected, .. } = summary;
        let mut text = String::new();
        for (what, (count, first)) in &self.different {
            let more = if *count > first.len() { ", …" } else { "" };
            text += &format!("{what}\n  {}: {}{more}\n", plural(*count, "time"), first.join(", "));
        }
        text + &format!("{as_expected} of {} matched the model.\n", plural(*tests, "test"))
    }
}

/// The operation of a call: `link` of call `b` in `open,link/17.3`.
fn operation<'i>(id: &'i str, call: &str) -> &'i str {
    let names = id.split_once('/').map_or(id, |(names, _)| names);
    let nr = call.bytes().next().map_or(0, |label| usize::from(label.wrapping_sub(b'a')));
    names.split(',').nth(nr).unwrap_or(names)
}
