//! `knee commute check`.

mod args;
mod program;
mod progress;
mod selection;
mod trace;

use knee_host::number::plural;
use knee_trace::check;
use knee_trace::findings::{TestLine, Tested, TestedKernel};

pub(super) use self::args::Args;
use self::progress::carry_out;
use self::selection::{distinct, listed};
use super::test_lines::{posix, tests};
use crate::exit::ExitStatus;
use crate::input::emulator::emulator;
use crate::input::kernel::{kernel, warn_of_missing};
use crate::stderr::tell;

pub(super) fn run(args: &Args) -> anyhow::Result<ExitStatus> {
    if let Some(program) = &args.program {
        return program::run(program, args);
    }
    let lines = tests(&*posix(), &args.operations, args.tests.as_deref(), false)?;
    let all = listed(&lines, args.trace.is_some())?;
    distinct(&all)?;
    let kernel = kernel(args.kernel.as_deref())?;
    if let Some(test) = &args.trace {
        return trace::run(test, &all, &kernel, args);
    }
    let tested = Tested::Kernel { kernel: TestedKernel::of(&kernel), file_system: args.fs.clone() };
    let emulator = emulator()?;
    let qemu = emulator.version().map_err(anyhow::Error::from);
    carry_out(args, &all, tested, qemu, |under_way| {
        let options = args.options(&kernel, emulator)?;
        let tests = plural(under_way.left(), "test");
        tell!("knee: booting a guest with Linux {} for {tests}", kernel.release());
        let mut warned = false;
        check(&kernel, &under_way.lines(), &options, |checked, functions| {
            warn_of_missing(&mut warned, &kernel, functions);
            under_way.keep(TestLine::of(&checked, functions))
        })?;
        Ok(())
    })
}
