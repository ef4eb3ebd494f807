//! `knee profile` itself: taking a capture.

use std::path::{Path, PathBuf};

use anyhow::Context;
use knee_measure::interrupt::Interrupt;
use knee_profile::Capture;
use knee_profile::sampling::{Options, Sampler, Target};
use knee_profile::view::functions::{functions, table};

use super::testcase::{Bench, told};
use super::{SampleArgs, target};
use crate::exit::{ExitStatus, usage};
use crate::present::profile::{losses, summary};
use crate::stderr::tell;
use crate::stdout;

/// Seconds that a testcase is sampled for.
const SECONDS: f64 = 3.0;
/// Functions that are shown at once.
const SHOWN: usize = 15;
/// Where captures are kept that were given no place.
const PROFILES: &str = "profiles";

pub(super) fn run(args: &SampleArgs) -> anyhow::Result<ExitStatus> {
    let interrupt = Interrupt::install().context("cannot watch for signals")?;
    let how = &args.how;
    let options = Options { every: how.event.into(), frequency: how.frequency, without: None };
    let (capture, status) = if let Some(name) = &args.testcase {
        let bench = Bench::of(name, args.mode, how)?;
        let tasks = args.tasks.unwrap_or(bench.topology.usable().len() as u32);
        let seconds = args.duration.unwrap_or(SECONDS);
        let begun = |sampler: &Sampler| {
            if !how.quiet {
                tell_how(sampler);
            }
        };
        match bench.sample(tasks, seconds, &interrupt, begun)? {
            Ok(capture) => (capture, ExitStatus::Done),
            Err(stopped) => return told(stopped, &bench),
        }
    } else if let Some(pid) = args.pid {
        target::running(&Target::Process(pid), args.duration, &options, &interrupt, how.quiet)?
    } else if args.all {
        target::running(&Target::System, args.duration, &options, &interrupt, how.quiet)?
    } else if !args.command.is_empty() {
        target::command(&args.command, args.duration, &options, &interrupt, how.quiet)?
    } else {
        return Err(usage(
            "what is to be sampled? a testcase, -p PID, -a, or -- COMMAND: see knee profile --help",
        ));
    };
    let file = keep(&capture, args.output.as_deref())?;
    if !how.quiet {
        stdout::print(&format!("{}\n{}", summary(&capture), table(&functions(&capture), SHOWN)))?;
        losses(&capture);
        tell!("knee: captured in {0}; the call tree: knee profile show {0}", file.display());
    }
    Ok(status)
}

/// Says what makes a sample due, and what is not seen.
pub(super) fn tell_how(sampler: &Sampler) {
    let clock = sampler.clock();
    let why = match clock.event.as_str() {
        "cpu-clock" => " (a timer: code with interrupts off is seen at its end)",
        _ => "",
    };
    tell!("knee: sampling {} at {} Hz{why}", clock.event, clock.frequency.unwrap_or(0));
    if !sampler.sees_kernel() {
        tell!(
            "knee: without the kernel, which takes kernel.perf_event_paranoid 1 or less, or root: \
             sysctl kernel.perf_event_paranoid=1"
        );
    } else if !sampler.knows_kernel_names() {
        tell!(
            "knee: the kernel's functions have no names here: as root, sysctl \
             kernel.kptr_restrict=0 kernel.perf_event_paranoid=1"
        );
    }
}

/// Writes a capture where it was asked for, or in a file of its own.
fn keep(capture: &Capture, output: Option<&Path>) -> anyhow::Result<PathBuf> {
    let file = match output {
        Some(file) => file.to_owned(),
        None => unnamed(capture)?,
    };
    capture.write(&file)?;
    Ok(file)
}

/// `profiles/2026-11-22T100000Z.json`, or with `-2`, `-3` … for captures of the same second.
fn unnamed(capture: &Capture) -> anyhow::Result<PathBuf> {
    std::fs::create_dir_all(PROFILES)
        .with_context(|| format!("cannot make the directory {PROFILES}: use -o FILE"))?;
    let started = capture.machine.started_at.replace(':', "");
    let named = |suffix: &str| Path::new(PROFILES).join(format!("{started}{suffix}.json"));
    let mut file = named("");
    for n in 2.. {
        if !file.exists() {
            break;
        }
        file = named(&format!("-{n}"));
    }
    Ok(file)
}
