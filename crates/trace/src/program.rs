//! Tests of a library in a program that binds it to a model, under QEMU's user mode.
//!
//! The program finds its tests on standard input and says on standard output what the calls returned
//! and what is mapped where (crate knee-bind). The kernel below makes its system calls, so nothing is
//! traced of what they do. A program that dies, hangs or exits takes only the test with it that it was
//! in; the next ones go on in a fresh one.

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use knee_agent::Outcome;
use knee_bind::{TOLD, Told};
use knee_commute::Test;

use crate::check::{CheckError, Checked};
use crate::guest::End;
use crate::process::{Launch, Qemu, Said, Tracing, memory_file};
use crate::record::Record;
use crate::results::Results;
use crate::symbols::ProgramNames;

pub(crate) const QEMU: &str = "qemu-x86_64";

/// Runs `tests`, a line of JSON each, in a program whose `main` is `knee_bind::main`; tells each, in
/// their order. A program that says nothing for as long as `patience` hangs.
pub fn check_program(
    program: &Path,
    tests: &[u8],
    patience: Duration,
    mut tell: impl FnMut(Checked, &ProgramNames) -> ControlFlow<()>,
) -> Result<(), CheckError> {
    let lines: Vec<&[u8]> = tests.split(|byte| *byte == b'\n').collect();
    let mut rest: &[&[u8]] = &lines;
    // What follows the last end of a line.
    while let [before @ .., b""] = rest {
        rest = before;
    }
    let mut names = ProgramNames::default();
    while !rest.is_empty() {
        let mut process = Process::start(program, &rest.join(&b'\n'), patience)?;
        names.restart();
        let mut told = 0;
        let end = loop {
            match process.next(&mut names)? {
                Next::Checked(checked) => {
                    told += 1;
                    if tell(checked, &names).is_break() {
                        return Ok(());
                    }
                }
                Next::End(end) => break end,
            }
        };
        if told == rest.len() {
            break;
        }
        if !process.is_up {
            return Err(CheckError::NotUp(end));
        }
        let line = lines.len() - rest.len() + told;
        let no_test = |source| CheckError::NoTest { line, source };
        let lost: Test = serde_json::from_slice(rest[told]).map_err(no_test)?;
        let lost = Checked { id: lost.id, outcome: Err(end), runs: Vec::new(), trace: Vec::new() };
        if tell(lost, &names).is_break() {
            return Ok(());
        }
        rest = &rest[told + 1..];
    }
    Ok(())
}

enum Next {
    Checked(Checked),
    End(End),
}

/// The program with the tests that are left.
struct Process {
    qemu: Qemu,
    /// Whether it has said that it is a binding.
    is_up: bool,
    /// Tests that are done and whose results have not all come.
    done: VecDeque<(String, Outcome, u64)>,
    results: Results,
    /// Runs of the tests that have been told.
    runs: u64,
}

impl Process {
    fn start(program: &Path, tests: &[u8], patience: Duration) -> Result<Process, CheckError> {
        let mut launch = Launch::program(Command::new(QEMU));
        launch.trace(Tracing { user: true, ..Tracing::default() })?;
        launch.command().arg(program).stdin(Stdio::from(memory_file("knee-tests", tests)?));
        Ok(Process {
            qemu: launch.start(patience)?,
            is_up: false,
            done: VecDeque::new(),
            results: Results::default(),
            runs: 0,
        })
    }

    /// The next test that is done, or the end.
    fn next(&mut self, names: &mut ProgramNames) -> Result<Next, CheckError> {
        loop {
            if let Some(mut checked) = self.complete() {
                names.look_up(&mut checked.runs);
                return Ok(Next::Checked(checked));
            }
            let end = match self.qemu.next()? {
                Some(Said::Line(line)) => {
                    self.listen(&line, names)?;
                    continue;
                }
                Some(Said::Result(Record::Test(result))) => {
                    self.results.add(result);
                    continue;
                }
                Some(Said::Result(_)) => continue,
                Some(Said::Silent(patience)) => End::Hung(patience),
                Some(Said::Ended(status, _)) if status.success() => End::Exited,
                Some(Said::Ended(status, complaints)) => End::Died(match status.signal() {
                    Some(signal) => format!("it was ended by signal {signal}: {complaints}"),
                    None => format!("{status}: {complaints}"),
                }),
                None => End::Died("it said nothing".to_owned()),
            };
            return Ok(Next::End(end));
        }
    }

    fn listen(&mut self, line: &str, names: &mut ProgramNames) -> Result<(), CheckError> {
        let Some(told) = line.strip_prefix(TOLD) else { return Ok(()) };
        match serde_json::from_str(told) {
            Ok(Told::Mapping(mapping)) => {
                self.is_up = true;
                names.learn(&mapping);
            }
            Ok(Told::Thread(stack)) => names.learn_thread(stack),
            Ok(Told::Done { id, outcome, seen }) => self.done.push_back((id, outcome, seen)),
            Err(_) => return Err(CheckError::Agent(told.to_owned())),
        }
        Ok(())
    }

    /// The first test that is done and all of whose results have come.
    fn complete(&mut self) -> Option<Checked> {
        let end = self.runs.saturating_add(self.done.front()?.2);
        let runs = self.results.take(self.runs..end)?;
        self.runs = end;
        let (id, outcome, _) = self.done.pop_front()?;
        Some(Checked { id, outcome: Ok(outcome), runs, trace: Vec::new() })
    }
}
