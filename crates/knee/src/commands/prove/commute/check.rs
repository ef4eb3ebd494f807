//! `knee commute check`.

mod args;
mod program;
mod progress;
mod selection;
mod trace;

use std::ops::ControlFlow;

use knee_host::number::plural;
use knee_trace::findings::{TestLine, Tested, TestedKernel};
use knee_trace::{CheckOptions, Kernel, check};

pub(super) use self::args::Args;
use self::progress::{UnderWay, status};
use self::selection::{distinct, listed};
use super::test_lines::tests;
use crate::exit::ExitStatus;
use crate::input::emulator::emulator;
use crate::input::kernel::{kernel, warn_of_missing};
use crate::present::commute::check::text;
use crate::stderr::tell;
use crate::stdout;

pub(super) fn run(args: &Args) -> anyhow::Result<ExitStatus> {
    if let Some(program) = &args.program {
        return program::run(program, args);
    }
    let lines = tests(&args.operations, args.tests.as_deref(), false)?;
    let all = listed(&lines, args.trace.is_some())?;
    distinct(&all)?;
    let kernel = kernel(args.kernel.as_deref())?;
    if let Some(test) = &args.trace {
        return trace::run(test, &all, &kernel, args);
    }
    let tested = Tested::Kernel { kernel: TestedKernel::of(&kernel), file_system: args.fs.clone() };
    let title = tested.to_string();
    let emulator = emulator()?;
    let qemu = emulator.version();
    let version = qemu.as_deref().unwrap_or_default().to_owned();
    let (mut progress, _) = UnderWay::begin(args, &all, tested, version)?;
    if !progress.is_done() {
        qemu?;
        let options = args.options(&kernel, emulator)?;
        match run_tests(&kernel, &options, &mut progress) {
            Err(error) if stdout::is_broken_pipe(&error) => return Ok(ExitStatus::Done),
            ran => ran?,
        }
    }
    let tally = progress.end()?;
    if !args.json {
        stdout::show(&text(&tally, &title))?;
    }
    Ok(status(&tally))
}

/// Runs the remaining tests in guests, and records each result.
fn run_tests(
    kernel: &Kernel,
    options: &CheckOptions,
    progress: &mut UnderWay,
) -> anyhow::Result<()> {
    let tests = plural(progress.left(), "test");
    tell!("knee: booting a guest with Linux {} for {tests}", kernel.release());
    let mut failed = Ok(());
    let mut warned = false;
    check(kernel, &progress.lines(), options, |checked, functions| {
        warn_of_missing(&mut warned, kernel, functions);
        failed = progress.keep(TestLine::of(&checked, functions));
        if failed.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    failed
}
