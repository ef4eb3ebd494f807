//! A check in progress: the remaining tests, and where their results go.

use std::collections::BTreeSet;
use std::io::Write;
use std::ops::ControlFlow;

use anyhow::Context;
use knee_host::Interrupt;
use knee_host::number::plural;
use knee_host::utc::now;
use knee_trace::findings::{Check, Ids, TestLine, Tested, Writer, is_record};

use super::args::Args;
use super::selection::Selected;
use crate::exit::ExitStatus;
use crate::filter::Content;
use crate::interrupt;
use crate::present::commute::check::Results;
use crate::progress::{Amount, Progress};
use crate::stderr::tell;
use crate::stdout;

/// Checks `tested`. Calls `run` if the record lacks some of the tests in `selected`. Prints the results of
/// all tests, including earlier ones, and returns the exit status.
pub(super) fn carry_out<'t>(
    args: &Args,
    selected: Selected<'t>,
    tested: Tested,
    qemu: anyhow::Result<String>,
    run: impl FnOnce(&mut UnderWay<'t>) -> anyhow::Result<()>,
) -> anyhow::Result<ExitStatus> {
    let version = qemu.as_deref().unwrap_or_default().to_owned();
    let mut under_way = UnderWay::begin(args, selected, tested.clone(), version)?;
    if !under_way.left.is_empty() {
        qemu?;
        run(&mut under_way)?;
    }
    let UnderWay { expected, record, results, failed, interrupted, progress, .. } = under_way;
    match failed {
        Err(error) if stdout::is_broken_pipe(&error) => return Ok(ExitStatus::Done),
        failed => failed?,
    }
    if let Some(record) = record {
        record.end(now())?;
    }
    drop(progress);
    let tests = results.tally.total().tests;
    if !args.json && (tests > 0 || interrupted.is_none()) {
        stdout::show(&results.text(&tested))?;
    }
    if let Some(signal) = interrupted {
        let done = format!("{tests} of {}", plural(expected, "test"));
        tell!("knee: {}", interrupt::message_after(&done));
        return Ok(ExitStatus::Interrupted(signal));
    }
    Ok(match results.tally.total().died {
        0 if results.tally.unexpected().is_empty() => ExitStatus::Done,
        0 => ExitStatus::Policy,
        _ => ExitStatus::TestcaseDied,
    })
}

/// A check in progress: the remaining tests, and the results so far.
pub(super) struct UnderWay<'t> {
    /// The test count of the shard, and the tests to run.
    expected: usize,
    left: Vec<&'t [u8]>,
    results: Results,
    record: Option<Writer>,
    /// Whether results could be written so far.
    failed: anyhow::Result<()>,
    signals: Interrupt,
    /// The signal that ended the check, if any.
    interrupted: Option<i32>,
    json: bool,
    progress: Progress,
}

impl<'t> UnderWay<'t> {
    /// Begins a check, or resumes one if requested.
    fn begin(
        args: &Args,
        selected: Selected<'t>,
        tested: Tested,
        qemu: String,
    ) -> anyhow::Result<Self> {
        let Selected { tests: mut all, sets } = selected;
        let ids = Ids::of(all.iter().map(|(id, _)| id));
        let of = match &sets {
            None => plural(all.len(), "test"),
            Some(sets) => format!("{} sets of operations", sets.count),
        };
        if sets.is_none() {
            args.shard.retain(&mut all);
        }
        let check = Check::begin(now(), tested, (ids, sets), args.shard, qemu);
        let expected = check.expected();
        if expected == 0 {
            tell!("knee: shard {} of {of} is empty", args.shard);
        }
        let (record, done) = open(args, check)?;
        let ids: BTreeSet<&str> = done.iter().map(|test| test.test.as_str()).collect();
        let left = all.iter().filter(|(id, _)| !ids.contains(id.as_str()));
        let left = left.map(|(_, line)| *line).collect();
        // Lines of JSON may share the terminal.
        let progress = if args.json { Progress::lines(false) } else { Progress::new(false) };
        let progress = progress.resumed_at(done.len() as u64);
        Ok(Self {
            expected,
            left,
            results: Results::of(&done),
            record,
            failed: Ok(()),
            signals: interrupt::poll()?,
            interrupted: None,
            json: args.json,
            progress,
        })
    }

    /// The count of tests to run when the check began.
    pub(super) fn left(&self) -> usize {
        self.left.len()
    }

    /// The tests to run, one per line.
    pub(super) fn lines(&self) -> Vec<u8> {
        self.left.concat()
    }

    /// Keeps the result of a test. Ends the check if that fails, or after a signal.
    pub(super) fn keep(&mut self, line: TestLine) -> ControlFlow<()> {
        self.failed = self.write(&line);
        self.interrupted = self.signals.take();
        match self.failed.is_ok() && self.interrupted.is_none() {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(()),
        }
    }

    fn write(&mut self, line: &TestLine) -> anyhow::Result<()> {
        self.results.add(line);
        let (done, of) = (self.results.tally.total().tests as u64, self.expected as u64);
        self.progress.show(&Amount { done, of, unit: "tests" }, String::new);
        if let Some(record) = &mut self.record {
            record.append(line).map_err(|error| {
                let with_next = format!("{error}{}", interrupt::and_next());
                anyhow::Error::new(error).context(with_next)
            })?;
        }
        if !self.json {
            return Ok(());
        }
        let mut out = stdout::stream(Content::Json);
        let written = out.write_all(line.to_line().as_bytes()).and_then(|()| out.flush());
        match written.context("cannot write to standard output") {
            // A reader such as `head` has exited, but the record must contain all tests.
            Err(error) if self.record.is_some() && stdout::is_broken_pipe(&error) => {
                self.json = false;
                Ok(())
            }
            written => written,
        }
    }
}

/// The record to write, if the user requested one, and the tests that it already contains.
fn open(args: &Args, check: Check) -> anyhow::Result<(Option<Writer>, Vec<TestLine>)> {
    let Some(dir) = &args.output else { return Ok((None, Vec::new())) };
    interrupt::set_next_to_this_command(if args.resume { "" } else { " --resume" });
    if !args.resume || !is_record(dir) {
        return Ok((Some(Writer::create(dir, check)?), Vec::new()));
    }
    let (writer, done) = Writer::resume(dir, &check)?;
    if done.len() < check.expected() {
        for change in writer.check().tool_changes(&check) {
            tell!("knee: {}: {change}", dir.display());
        }
    }
    tell!("knee: {} has {} of {} tests", dir.display(), done.len(), check.expected());
    Ok((Some(writer), done))
}
