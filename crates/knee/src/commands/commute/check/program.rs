//! `knee commute check --program`: a library instead of a kernel.

use std::ops::ControlFlow;
use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use knee_commute::Model;
use knee_trace::findings::{TestLine, Tested, TestedProgram};
use knee_trace::{check_program, qemu_user_version};

use super::super::program::Program;
use super::super::verify::{make_tests, read_tests};
use super::progress::Progress;
use super::{Args, distinct, listed, status};
use crate::exit::ExitStatus;
use crate::present::commute_check::text;
use crate::present::commute_program::Writers;
use crate::present::number::plural;
use crate::stderr::tell;
use crate::stdout;

/// A test takes a millisecond; after this it hangs.
const PATIENCE: Duration = Duration::from_secs(20);

pub(super) fn run(path: &Path, args: &Args) -> anyhow::Result<ExitStatus> {
    let program = Program::introduce(path.to_owned())?;
    let lines = match &args.tests {
        Some(file) => read_tests(file)?,
        None => make_tests(&program, &args.operations, false)?,
    };
    let all = listed(&lines, false)?;
    // One test many times shows what a library does in the long run; a record has each once.
    if args.output.is_some() {
        distinct(&all)?;
    }
    let read = TestedProgram::of(program.path());
    let tested = read.with_context(|| format!("cannot read {}", program.path().display()))?;
    let tested = Tested::Program { program: tested };
    let title = tested.to_string();
    let qemu = qemu_user_version();
    let version = qemu.as_deref().unwrap_or_default().to_owned();
    let (mut progress, done) = Progress::begin(args, &all, tested, version)?;
    let mut writers = Writers::of(&done);
    if !progress.is_done() {
        qemu?;
        match run_tests(&program, &mut progress, &mut writers) {
            Err(error) if stdout::is_broken_pipe(&error) => return Ok(ExitStatus::Done),
            ran => ran?,
        }
    }
    let tally = progress.end()?;
    if !args.json {
        stdout::print(&(text(&tally, &title) + &writers.text()))?;
    }
    Ok(status(&tally))
}

/// Runs the tests that are left, and keeps what each shows.
fn run_tests(
    program: &Program,
    progress: &mut Progress<'_>,
    writers: &mut Writers,
) -> anyhow::Result<()> {
    tell!("knee: {} of {}", plural(progress.left(), "test"), program.name());
    let mut failed = Ok(());
    check_program(program.path(), &progress.lines(), PATIENCE, |checked, names| {
        let line = TestLine::of(&checked, names.functions());
        writers.add(&line);
        failed = progress.keep(line);
        if failed.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    failed
}
