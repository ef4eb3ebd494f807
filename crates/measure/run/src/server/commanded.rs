//! A load that a command generates, on this machine or on another host.

use std::time::{Duration, Instant};

use super::follow::{LOAD_PATIENCE, Measured, Times, endless, follow, require_alive};
use super::host::LoadHost;
use super::output;
use super::process::Process;
use super::round::Round;
use super::usage::Usage;
use crate::command::rate;
use crate::job::{Failure, FailureKind};
use crate::placeholders::SECONDS;
use crate::stopped::Stopped;

/// The part of a command with `{seconds}` in which its load is steady: it has opened its connections, and
/// does not close them yet. The CPU time of this part counts.
const STEADY: [f64; 2] = [0.2, 0.9];

/// Puts load on `server` with the command `line`.
pub(super) fn measure(
    round: &Round<'_>,
    server: &mut Process,
    line: &str,
) -> Result<Measured, Stopped> {
    let mut load = match &round.host {
        Some(host) => host.start_command(&round.values.clone().in_dir(host.dir()).fill(line))?,
        None => round.start("the load", line, &round.places.load)?,
    };
    let interval = round.job.interval;
    let after = |share: f64| Duration::from_secs_f64(share * interval);
    let is_steady = line.contains(SECONDS);
    let mut times = Times {
        start: round.host.is_none().then(Instant::now),
        begin: if is_steady { after(STEADY[0]) } else { Duration::ZERO },
        end: is_steady.then(|| after(STEADY[1])),
        limit: after(1.0) + LOAD_PATIENCE,
    };
    let begun = Instant::now();
    let usage = follow(round, &mut [server, &mut load], Some(&mut times), &|| false)?;
    let seconds = times.start.unwrap_or(begun).elapsed().as_secs_f64();
    let Some(end) = load.end() else {
        return Err(endless(&load, &times, "limit its run time to {seconds}").into());
    };
    if !end.success() {
        require_alive(round, server)?;
        return Err(load.death("", "run the command by hand to see why").into());
    }
    let read = round.server.load.read.as_deref();
    let (printed, line) = match &round.host {
        Some(host) => (
            load.output_of_load().unwrap_or_default(),
            format!("`{}` on {}", load.line, host.name()),
        ),
        None => (&load.stdout[..], load.line.clone()),
    };
    let rate = rate::printed(printed, &line, read).map_err(|failure| Failure {
        remedy: "correct load.read in the description: the text around the rate, such as 'tps = #'"
            .to_owned(),
        ..failure
    })?;
    // Otherwise knee got no CPU to read the CPU times in time: the round is disturbed.
    let was_measured = is_steady && seconds >= STEADY[1] * round.job.interval;
    if usage.is_none() && !was_measured {
        let remedy = "use {seconds} for its run time, and a longer --interval";
        return Err(load.failure(FailureKind::Died, "ended before it was measured", remedy).into());
    }
    let (load_cpu, load_busy) = match (&round.host, &usage) {
        (Some(host), _) => used_on(host, &load, seconds)?,
        (None, Some(usage)) => used_here(round, usage, seconds),
        (None, None) => (0.0, 0.0),
    };
    Ok(Measured { rate, seconds, load_busy, load_cpu, requests: None, usage })
}

/// CPU seconds of the load in `seconds`, and its share of the time of its CPUs.
fn used_here(round: &Round<'_>, usage: &Usage, seconds: f64) -> (f64, f64) {
    let had = usage.seconds * round.places.load.len() as f64;
    let busy = if had > 0.0 { (usage.load / had).min(1.0) } else { 0.0 };
    (usage.load * seconds / usage.seconds, busy)
}

/// The same of the load on `host`, which reports the CPU time from start to end.
fn used_on(host: &LoadHost, load: &Process, seconds: f64) -> Result<(f64, f64), Failure> {
    let cpu = output::cpu_seconds(&load.stdout).ok_or_else(|| {
        let what = "reported no CPU time";
        load.failure(FailureKind::CannotRun, what, "the host needs a POSIX shell as sh")
    })?;
    let had = seconds * host.cpus().len() as f64;
    let cpu = cpu.min(had);
    Ok((cpu, if had > 0.0 { cpu / had } else { 0.0 }))
}
