//! `knee commute check --program`: check a library instead of a kernel.

use std::path::Path;

use anyhow::Context;
use knee_commute::Model;
use knee_host::number::plural;
use knee_trace::check_program;
use knee_trace::findings::{TestLine, Tested, TestedProgram};

use super::args::Args;
use super::progress::carry_out;
use super::selection::{Lines, distinct};
use crate::exit::ExitStatus;
use crate::input::program::Program;
use crate::input::program_host::{PATIENCE, Place, host};
use crate::stderr::tell;

pub(super) fn run(path: &Path, args: &Args) -> anyhow::Result<ExitStatus> {
    let program = Program::introduce(path.to_owned())?;
    let lines = Lines::of(args, &program, &[])?;
    let selected = lines.select(false)?;
    // Repeating a test shows the long-run behaviour of a library, but a record has each test once.
    if args.output.is_some() {
        distinct(&selected.tests)?;
    }
    let tested = TestedProgram::of(program.path())
        .with_context(|| format!("cannot read {}", program.path().display()))?;
    let tested = Tested::Program { program: tested };
    let place = Place::choose(args.kernel.as_deref())?;
    let qemu = place.version().map_err(anyhow::Error::from);
    carry_out(args, selected, tested, qemu, |under_way| {
        let guest = place.guest()?;
        tell!("knee: {} of {}", plural(under_way.left(), "test"), program.name());
        let tests = under_way.lines();
        check_program(host(&guest), program.path(), &tests, PATIENCE, |checked, names| {
            under_way.keep(TestLine::of(&checked, names.functions()))
        })?;
        Ok(())
    })
}
