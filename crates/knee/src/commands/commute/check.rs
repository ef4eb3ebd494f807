//! `knee commute check`.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Context;
use knee_agent::Outcome;
use knee_trace::{Archive, Checked, Functions, GuestOptions, Kernel, Verdict, check};
use serde_json::json;

use super::verify::tests;
use crate::exit::ExitStatus;
use crate::present::commute_check::{Tally, text};
use crate::stderr::tell;
use crate::stdout;

/// Between two lines of progress.
const TELL_EVERY: Duration = Duration::from_secs(5);
/// Version of a line of the output.
const SCHEMA: u32 = 1;

/// Find out whether commuting calls share memory in a real kernel, traced in a guest under QEMU
///
/// Runs the tests of `posix` in which the calls commute on an unmodified kernel. Each test is run
/// three times, one call after the other on a virtual CPU of its own; what the kernel reads and
/// writes in each call is recorded, and a line of memory (64 bytes) that both touch and one writes
/// is a conflict: cores that make these calls at once wait for each other. The first run fills
/// caches and does not count. Neither a big machine nor its speed matters.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  knee commute check stat rename                        one pair, on the running kernel
  knee commute check open --kernel bookworm             every pair with open, on Debian 12's kernel
  knee commute check --kernel vmlinuz-6.12 --json > 6.12.jsonl
  knee commute tests | shuf -n 2000 | knee commute check --tests -

Status 1: a call returned what the model does not say.")]
pub(super) struct Args {
    /// Two to four operations that are called at once; one: every pair with it; none: all
    #[arg(value_name = "OP", num_args = 0..=4, conflicts_with = "tests")]
    operations: Vec<String>,

    /// Tests from a file of `knee commute tests`; - is standard input
    #[arg(long, value_name = "FILE")]
    tests: Option<PathBuf>,

    /// A kernel: its image, a Debian package of it, or the name of a Debian release to fetch it from;
    /// without, the running one
    #[arg(long, value_name = "FILE|RELEASE")]
    kernel: Option<PathBuf>,

    /// One line of JSON for each test
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args) -> anyhow::Result<ExitStatus> {
    let tests = tests(&args.operations, args.tests.as_deref(), false)?;
    let count = tests.iter().filter(|byte| **byte == b'\n').count();
    let kernel = kernel(args.kernel.as_deref())?;
    tell!("knee: {count} tests on Linux {}; the guest boots", kernel.release());
    let mut tally = Tally::default();
    let mut told = Instant::now();
    let mut failed = Ok(());
    check(&kernel, &tests, &GuestOptions::default(), |checked, functions| {
        tally.add(&checked, functions);
        if args.json {
            failed = write_line(&checked, functions);
            if failed.is_err() {
                return ControlFlow::Break(());
            }
        }
        if told.elapsed() >= TELL_EVERY {
            told = Instant::now();
            tell!("knee: {} of {count} tests", tally.tests());
        }
        ControlFlow::Continue(())
    })?;
    failed?;
    if !args.json {
        stdout::print(&text(&tally, kernel.release()))?;
    }
    Ok(if tally.unexpected() == 0 { ExitStatus::Done } else { ExitStatus::Policy })
}

fn kernel(named: Option<&Path>) -> anyhow::Result<Kernel> {
    let Some(named) = named else { return Ok(Kernel::running()?) };
    if named.exists() {
        return Ok(Kernel::open(named)?);
    }
    let name = named.to_string_lossy();
    if name.contains('/') {
        anyhow::bail!("there is no file {name}");
    }
    tell!("knee: looking for the kernel of {name}, which is fetched unless it has been");
    let path = Archive::of_user().fetch(&name)?;
    Kernel::open(&path).with_context(|| format!("the kernel of {name}"))
}

/// A test, what it shared, and which functions did.
fn write_line(checked: &Checked, functions: &Functions) -> anyhow::Result<()> {
    let verdict = match checked.verdict() {
        Verdict::ConflictFree => "conflict-free",
        Verdict::Conflict => "conflict",
        Verdict::Sometimes => "sometimes",
        Verdict::Disturbed => "disturbed",
        Verdict::Died => "died",
    };
    let names = |code: &[u64]| -> BTreeSet<String> {
        let name = |pc: &u64| functions.at(*pc).map_or_else(|| format!("{pc:#x}"), str::to_owned);
        code.iter().map(name).collect()
    };
    let last = checked.runs.last();
    let conflicts: Vec<_> = last
        .iter()
        .flat_map(|run| &run.conflicts)
        .map(|conflict| {
            let sides: BTreeMap<String, _> = conflict
                .sides
                .iter()
                .map(|touch| {
                    let bytes = [touch.first, touch.last];
                    let (writers, readers) = (names(&touch.writers), names(&touch.readers));
                    let side = json!({ "bytes": bytes, "writers": writers, "readers": readers });
                    (touch.side.to_string(), side)
                })
                .collect();
            json!({
                "line": format!("{:#x}", conflict.line),
                "same_bytes": conflict.overlap,
                "sides": sides,
            })
        })
        .collect();
    let unexpected = match &checked.outcome {
        Ok(Outcome::AsExpected) => None,
        Ok(other) => Some(json!(other)),
        Err(end) => Some(json!({ "died": end.to_string() })),
    };
    let line = json!({
        "schema": SCHEMA,
        "test": checked.id,
        "verdict": verdict,
        "unexpected": unexpected,
        "conflicts": conflicts,
    });
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}").context("cannot write to standard output")
}
