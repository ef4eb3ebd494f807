//! `knee commute check`.

mod args;
mod program;
mod progress;
mod selection;
mod trace;

use anyhow::Context;
use knee_host::number::plural;
use knee_trace::findings::{TestLine, Tested, TestedKernel, TestedProgram};
use knee_trace::{GuestKernel, KneeKernel, check};

pub(super) use self::args::Args;
use self::progress::carry_out;
use self::selection::{Lines, distinct};
use super::test_lines::posix;
use crate::exit::ExitStatus;
use crate::input::emulator::emulator;
use crate::input::kernel::{kernel, warn_of_missing};
use crate::stderr::tell;

pub(super) fn run(args: &Args) -> anyhow::Result<ExitStatus> {
    if let Some(program) = &args.program {
        return program::run(program, args);
    }
    let among = if args.guest_kernel.is_some() { KneeKernel::CALLS } else { &[] };
    let lines = Lines::of(args, &*posix(), among)?;
    let selected = lines.select(args.trace.is_some())?;
    distinct(&selected.tests)?;
    let kernel = match &args.guest_kernel {
        Some(file) => GuestKernel::Knee(KneeKernel::open(file)?),
        None => GuestKernel::Linux(kernel(args.kernel.as_deref())?),
    };
    if let Some(test) = &args.trace {
        return trace::run(test, &selected.tests, &kernel, args);
    }
    let tested = match &kernel {
        GuestKernel::Linux(kernel) => {
            Tested::Kernel { kernel: TestedKernel::of(kernel), file_system: args.fs.clone() }
        }
        GuestKernel::Knee(kernel) => {
            let of = TestedProgram::of(kernel.path());
            Tested::GuestKernel { guest_kernel: of.context("cannot read the kernel")? }
        }
    };
    let emulator = emulator()?;
    let qemu = emulator.version().map_err(anyhow::Error::from);
    carry_out(args, selected, tested, qemu, |under_way| {
        let options = args.options(&kernel, emulator)?;
        let tests = plural(under_way.left(), "test");
        tell!("knee: booting a guest with {kernel} for {tests}");
        let mut warned = false;
        check(&kernel, &under_way.lines(), &options, |checked, functions| {
            if let GuestKernel::Linux(kernel) = &kernel {
                warn_of_missing(&mut warned, kernel, functions);
            }
            under_way.keep(TestLine::of(&checked, functions))
        })?;
        Ok(())
    })
}
