//! `knee commute check --trace`: print every memory access of one test.

use std::ops::ControlFlow;

use anyhow::anyhow;
use knee_agent::Outcome;
use knee_trace::{CheckOptions, Checked, Functions, GuestKernel, TracedAccess, check};
use serde_json::json;

use super::args::Args;
use crate::exit::{ExitStatus, usage};
use crate::filter::Content;
use crate::input::emulator::emulator;
use crate::stderr::tell;
use crate::stdout;

pub(super) fn run(
    test: &str,
    tests: &[(String, &[u8])],
    kernel: &GuestKernel,
    args: &Args,
) -> anyhow::Result<ExitStatus> {
    let found = tests.iter().find(|(id, _)| id == test);
    let (_, line) = found.ok_or_else(|| {
        usage(format!(
            "none of {} tests has the id {test}; `knee commute tests` prints all ids",
            tests.len()
        ))
    })?;
    let emulator = emulator()?;
    emulator.version()?;
    let options = CheckOptions { trace: true, ..args.options(kernel, emulator)? };
    tell!("knee: booting a guest with {kernel} for {test}");
    let mut status = Err(anyhow!("the test was not run"));
    check(kernel, line, &options, |checked, functions| {
        status = print_all(&checked, functions, args.json);
        ControlFlow::Continue(())
    })?;
    status
}

fn print_all(
    checked: &Checked,
    functions: &Functions,
    as_json: bool,
) -> anyhow::Result<ExitStatus> {
    if let Err(end) = &checked.outcome {
        tell!("knee: the guest crashed in this test: {end}");
        return Ok(ExitStatus::TestcaseDied);
    }
    let unexpected = checked.outcome.as_ref().ok().filter(|is| **is != Outcome::AsExpected);
    if let Some(outcome) = unexpected {
        tell!("knee: {}: {outcome}", checked.id);
    }
    let content = if as_json { Content::Json } else { Content::Text };
    stdout::write_with(content, |out| {
        for access in &checked.trace {
            let line =
                if as_json { as_json_line(access, functions) } else { text(access, functions) };
            writeln!(out, "{line}")?;
        }
        Ok(())
    })?;
    Ok(if unexpected.is_some() { ExitStatus::Policy } else { ExitStatus::Done })
}

/// One access: the call, read or write, size, virtual and physical address, and the code.
fn text(access: &TracedAccess, functions: &Functions) -> String {
    let TracedAccess { side, pc, address, physical, bytes, store, .. } = access;
    let call = char::from(b'a' + *side as u8);
    let does = if *store { "writes" } else { "reads " };
    let function = functions.at(*pc).unwrap_or("?");
    format!("{call} {does} {bytes:>2} {address:#018x} {physical:#012x}  {function} {pc:#x}")
}

fn as_json_line(access: &TracedAccess, functions: &Functions) -> String {
    let TracedAccess { side, pc, address, physical, bytes, store, .. } = access;
    json!({
        "call": side,
        "wrote": store,
        "bytes": bytes,
        "virtual": format!("{address:#x}"),
        "physical": format!("{physical:#x}"),
        "function": functions.at(*pc),
        "pc": format!("{pc:#x}"),
    })
    .to_string()
}
