//! `knee commute check`.

mod program;
mod trace;

use std::collections::BTreeSet;
use std::io::Write;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, anyhow};
use clap::builder::PossibleValuesParser;
use knee_measure::machine::utc::rfc3339;
use knee_trace::findings::{Check, Shard, Tally, TestLine, Tests, Writer, is_record};
use knee_trace::{Archive, CheckOptions, Disk, Kernel, check, qemu_version};
use serde::Deserialize;

use super::verify::tests;
use crate::exit::{ExitStatus, usage};
use crate::present::commute_check::{text, title};
use crate::stderr::tell;
use crate::stdout;

/// Between two lines of progress.
pub(super) const TELL_EVERY: Duration = Duration::from_secs(5);
/// The file system that needs no disk.
const TMPFS: &str = "tmpfs";

/// Find out whether commuting calls share memory in a real kernel or library, traced under QEMU
///
/// Runs the tests of `posix` in which the calls commute on an unmodified kernel, one call after the
/// other on a virtual CPU of its own; what the kernel reads and writes in each call is recorded, and
/// a line of memory (64 bytes) that both touch and one writes is a conflict: cores that make these
/// calls at once wait for each other. A test with conflicts is run three times, and what it does not
/// share each time is told apart. Neither a big machine nor its speed matters.
///
/// With --program it does the same for a library, without a kernel: see docs/libraries.md.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  knee commute check stat rename                        one pair, on the running kernel
  knee commute check open --kernel bookworm             every pair with open, on Debian 12's kernel
  knee commute check --kernel vmlinuz-6.12 --json > 6.12.jsonl
  knee commute check link unlink --kernel bookworm --fs xfs
  knee commute tests | shuf -n 2000 | knee commute check --tests -
  knee commute check --kernel trixie -o 6.12            a record, for matrix, diff and explain
  knee commute check --kernel trixie -o 6.12 --resume   goes on with it after it was killed
  knee commute check --kernel trixie -o part/2 --shard 2/4    one of four machines
  knee commute check close close --trace close,close/3.1    every access of one test
  knee commute check --program ./my-binding             a library, of which this is a binding

Status 1: a call returned what the model does not say; 4: a guest or a
program did not survive a test.")]
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

    /// A program with a library, bound to a model of its interface (crate knee-bind): checks the
    /// library with the tests of that model
    #[arg(long, value_name = "FILE", conflicts_with_all = ["kernel", "fs", "output", "shard"])]
    program: Option<PathBuf>,

    /// What the tests' files are on: tmpfs, or a file system that mkfs of this machine makes, on a
    /// RAM disk of the guest
    #[arg(long, value_name = "NAME", default_value = TMPFS, value_parser = file_systems())]
    fs: String,

    /// Keep what is found in this directory, which must not be there yet
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,

    /// Only every N-th test, from the I-th on
    #[arg(long, value_name = "I/N", default_value_t = Shard::WHOLE)]
    shard: Shard,

    /// Go on with the tests that DIR does not have, if there is such a directory
    #[arg(long, requires = "output")]
    resume: bool,

    /// Every access to memory that the calls of this test make, and no other test
    #[arg(long, value_name = "TEST", conflicts_with_all = ["output", "shard", "program"])]
    trace: Option<String>,

    /// One line of JSON for each test that is run, or with --trace for each access
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args) -> anyhow::Result<ExitStatus> {
    if let Some(program) = &args.program {
        return program::run(program, args);
    }
    let lines = tests(&args.operations, args.tests.as_deref(), false)?;
    let all = listed(&lines)?;
    let kernel = kernel(args.kernel.as_deref())?;
    if let Some(test) = &args.trace {
        return trace::run(test, &all, &kernel, args);
    }
    let description = Check::begin(
        now(),
        &kernel,
        &args.fs,
        Tests::of(all.iter().map(|(id, _)| id.as_str())),
        args.shard,
        qemu_version().unwrap_or_default(),
    );
    let title = title(&description);
    let expected = description.expected();
    let (mut record, done) = open(args, description)?;
    let mut tally = Tally::of(&done);
    let done: BTreeSet<&str> = done.iter().map(|test| test.test.as_str()).collect();
    let of_shard = all.iter().enumerate().filter(|(nr, _)| args.shard.has(*nr));
    let left: Vec<&(String, &[u8])> =
        of_shard.map(|(_, test)| test).filter(|(id, _)| !done.contains(id.as_str())).collect();
    let mut keep = |line: TestLine| -> anyhow::Result<()> {
        tally.add(&line);
        if let Some(record) = &mut record {
            record.append(&line)?;
        }
        if args.json { write_line(&line) } else { Ok(()) }
    };
    if !left.is_empty() {
        let options = CheckOptions { disk: disk(args, &kernel)?, ..CheckOptions::default() };
        run_tests(&kernel, &left, &options, expected - left.len(), &mut keep)?;
    }
    if let Some(record) = record {
        record.end(now())?;
    }
    if !args.json {
        stdout::print(&text(&tally, &title))?;
    }
    Ok(status(&tally))
}

/// What the tests' files are on, if that is not tmpfs.
fn disk(args: &Args, kernel: &Kernel) -> anyhow::Result<Option<Disk>> {
    Ok((args.fs != TMPFS).then(|| Disk::make(kernel, &args.fs)).transpose()?)
}

fn status(tally: &Tally) -> ExitStatus {
    match tally.total().died {
        0 if tally.unexpected().is_empty() => ExitStatus::Done,
        0 => ExitStatus::Policy,
        _ => ExitStatus::TestcaseDied,
    }
}

fn now() -> String {
    rfc3339(SystemTime::now())
}

/// The tests of a text, with their ids.
fn listed(lines: &[u8]) -> anyhow::Result<Vec<(String, &[u8])>> {
    #[derive(Deserialize)]
    struct Test {
        id: String,
    }
    let mut seen = BTreeSet::new();
    let mut tests = Vec::new();
    let lines = lines.split_inclusive(|byte| *byte == b'\n').enumerate();
    for (nr, line) in lines.filter(|(_, line)| !line.trim_ascii().is_empty()) {
        let Test { id } = serde_json::from_slice(line)
            .map_err(|error| anyhow!("line {} of the tests is none: {error}", nr + 1))?;
        if !seen.insert(id.clone()) {
            return Err(usage(format!("test {id} is there twice, in line {} again", nr + 1)));
        }
        tests.push((id, line));
    }
    Ok(tests)
}

/// The record that is to be written, if any is, and the tests that it has.
fn open(args: &Args, check: Check) -> anyhow::Result<(Option<Writer>, Vec<TestLine>)> {
    let Some(dir) = &args.output else { return Ok((None, Vec::new())) };
    if !args.resume || !is_record(dir) {
        return Ok((Some(Writer::create(dir, check)?), Vec::new()));
    }
    let (writer, done) = Writer::resume(dir, &check)?;
    tell!("knee: {} has {} of {} tests", dir.display(), done.len(), check.expected());
    Ok((Some(writer), done))
}

/// Runs tests in guests, `before` of all having been run, and keeps what each shows.
fn run_tests(
    kernel: &Kernel,
    tests: &[&(String, &[u8])],
    options: &CheckOptions,
    before: usize,
    keep: &mut impl FnMut(TestLine) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let all = before + tests.len();
    tell!("knee: {} tests on Linux {}; the guest boots", tests.len(), kernel.release());
    let lines: Vec<&[u8]> = tests.iter().map(|(_, line)| *line).collect();
    let mut ran = 0;
    let mut told = Instant::now();
    let mut failed = Ok(());
    check(kernel, &lines.concat(), options, |checked, functions| {
        ran += 1;
        failed = keep(TestLine::of(&checked, functions));
        if told.elapsed() >= TELL_EVERY {
            told = Instant::now();
            tell!("knee: {} of {all} tests", before + ran);
        }
        if failed.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    failed
}

fn file_systems() -> PossibleValuesParser {
    PossibleValuesParser::new(std::iter::once(TMPFS).chain(Disk::kinds()))
}

pub(super) fn kernel(named: Option<&Path>) -> anyhow::Result<Kernel> {
    let Some(named) = named else { return Ok(Kernel::running()?) };
    // A record of the kernel's check may well be in a directory of its name.
    if named.exists() && !named.is_dir() {
        return Ok(Kernel::open(named)?);
    }
    let name = named.to_string_lossy();
    if name.contains('/') {
        anyhow::bail!("there is no file {name}");
    }
    tell!("knee: looking for the kernel of {name}, which is fetched unless it has been");
    Archive::of_user().open(&name).with_context(|| format!("the kernel of {name}"))
}

fn write_line(line: &TestLine) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(line.to_line().as_bytes()).context("cannot write to standard output")
}
