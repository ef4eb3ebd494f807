//! `knee commute check --program`: a library instead of a kernel.

use std::ops::ControlFlow;
use std::path::Path;
use std::time::{Duration, Instant};

use knee_commute::Model;
use knee_trace::check_program;
use knee_trace::findings::{Tally, TestLine};

use super::super::program::Program;
use super::super::verify::{make_tests, read_tests};
use super::{Args, TELL_EVERY, status, write_line};
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
    let tests = match &args.tests {
        Some(file) => read_tests(file)?,
        None => make_tests(&program, &args.operations, false)?,
    };
    let count = tests.iter().filter(|byte| **byte == b'\n').count();
    tell!("knee: {} of {}", plural(count, "test"), program.name());
    let mut tally = Tally::default();
    let mut writers = Writers::default();
    let mut told = Instant::now();
    let mut failed = Ok(());
    check_program(program.path(), &tests, PATIENCE, |checked, names| {
        let line = TestLine::of(&checked, names.functions());
        tally.add(&line);
        writers.add(&line);
        if args.json {
            failed = write_line(&line);
        }
        if told.elapsed() >= TELL_EVERY {
            told = Instant::now();
            tell!("knee: {} of {count} tests", tally.total().tests);
        }
        if failed.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    failed?;
    if !args.json {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        stdout::print(&(text(&tally, &name) + &writers.text()))?;
    }
    Ok(status(&tally))
}
