//! Requests that knee sends to a server, from this machine or from another host.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::follow::{LOAD_PATIENCE, Measured, Times, endless, follow, require_alive};
use super::generator::{Generated, LoadJob, LoadReport, failed, parsed};
use super::host::LoadHost;
use super::process::Process;
use super::ready::own_target;
use super::round::Round;
use super::usage::Usage;
use crate::account::TICK;
use crate::job::{Failure, FailureKind};
use crate::stopped::Stopped;

/// Seconds to wait for the replies to the last requests of a closed loop.
const PATIENCE: f64 = 1.0;
/// The shortest measured part in which CPU times have a meaning, in seconds: a few clock ticks.
const SHORTEST: f64 = 5.0 * TICK;

/// Sends the requests that fill the server, from this machine.
pub(super) fn fill(round: &Round<'_>, server: &mut Process, address: &str) -> Result<(), Stopped> {
    let target = own_target(round, server, address)?;
    let patience = Duration::from_secs_f64(round.job.start_timeout);
    for fill in &round.server.fill {
        let request = parsed(&fill.request)?;
        let (filled, _) = generate(
            server,
            |stop| knee_load::exchange(&target, &request, fill.count, patience, stop),
            |server, is_done| follow(round, &mut [server], None, is_done),
        )?;
        if let Err(error) = filled {
            let failure = failed(&error);
            let reason = format!("filling the server: {}", failure.reason);
            return Err(explained(round, server, Failure { reason, ..failure }));
        }
    }
    Ok(())
}

/// Sends the requests of the load.
pub(super) fn measure(
    round: &Round<'_>,
    server: &mut Process,
    address: &str,
) -> Result<Measured, Stopped> {
    let description = &round.server.load;
    let load = LoadJob {
        address: round.values.fill(address),
        request: description.request.clone(),
        connections: description.connections,
        reconnect: description.reconnect,
        rate: None,
        warmup: round.job.warmup,
        seconds: round.job.interval,
        patience: PATIENCE,
    };
    let (generated, usage) = generated(round, server, &load)?;
    let measured = |generated: &Generated, usage| Measured {
        rate: generated.rate(),
        seconds: generated.seconds,
        usage,
        load_busy: generated.busy(),
        load_cpu: generated.cpu,
        requests: Some(load.clone()),
    };
    match generated {
        // Other work can leave the server no time to reply. This says nothing about the server, so knee repeats the
        // round, and measures no latency at its rate.
        Ok(generated) if generated.lacks_only_replies() => {
            let measured = measured(&generated, followed(usage, load.seconds)?);
            if measured.is_disturbed(round) {
                require_alive(round, server)?;
                return Ok(Measured { requests: None, ..measured });
            }
            checked(round, server, Ok(generated))?;
            Ok(measured)
        }
        generated => {
            let generated = checked(round, server, generated)?;
            Ok(measured(&generated, followed(usage, load.seconds)?))
        }
    }
}

/// The CPU times of a measured part of `seconds`. `None` if knee got no CPU to read them in time: the round is then
/// disturbed.
///
/// # Errors
/// The part is too short for CPU times.
fn followed(usage: Option<Usage>, seconds: f64) -> Result<Option<Usage>, Failure> {
    if usage.is_none() && seconds < SHORTEST {
        let reason = format!("the measured part of {seconds} s is too short for CPU times");
        let remedy = format!("use an --interval of at least {SHORTEST} s");
        return Err(Failure::new(FailureKind::CannotRun, reason, remedy));
    }
    Ok(usage)
}

/// Generates `load`. Returns what it measured, which the caller [checks](checked), and the CPU time in the
/// measured part.
pub(super) fn generated(
    round: &Round<'_>,
    server: &mut Process,
    load: &LoadJob,
) -> Result<(Result<Generated, Failure>, Option<Usage>), Stopped> {
    let begin = Duration::from_secs_f64(load.warmup);
    let end = begin + Duration::from_secs_f64(load.seconds);
    let mut times = Times { start: None, begin, end: Some(end), limit: end + LOAD_PATIENCE };
    // Also for a load on another host, so that no other program answers in place of the server.
    let target = own_target(round, server, &load.address)?;
    if let Some(host) = &round.host {
        return generated_on(host, round, server, load, times);
    }
    times.start = Some(Instant::now());
    let cpus = round.places.load.clone();
    generate(
        server,
        |stop| load.generate(target, cpus, stop),
        |server, is_done| follow(round, &mut [server], Some(&mut times), is_done),
    )
}

/// The same on another host.
fn generated_on(
    host: &LoadHost,
    round: &Round<'_>,
    server: &mut Process,
    job: &LoadJob,
    mut times: Times,
) -> Result<(Result<Generated, Failure>, Option<Usage>), Stopped> {
    let mut load = host.start_knee(round.server.load.knee.as_deref(), job)?;
    let usage = follow(round, &mut [server, &mut load], Some(&mut times), &|| false)?;
    let remedy = "run it again; if it fails again, log in to the host to see why";
    let Some(end) = load.end() else { return Ok((Err(endless(&load, &times, remedy)), usage)) };
    let generated = match LoadReport::find(&load.stdout, job) {
        _ if !end.success() => Err(load.death("", remedy)),
        Some(LoadReport::Done(generated)) => Ok(generated),
        Some(LoadReport::Failed(failure)) => Err(Failure {
            reason: format!("{} reports {}", host.name(), failure.reason),
            ..failure
        }),
        None => Err(load.failure(FailureKind::Died, "printed no valid result", remedy)),
    };
    Ok((generated, usage))
}

/// What was measured by a load of which every request got a correct reply; otherwise the failure.
pub(super) fn checked(
    round: &Round<'_>,
    server: &mut Process,
    generated: Result<Generated, Failure>,
) -> Result<Generated, Stopped> {
    match generated.and_then(Generated::checked) {
        Ok(generated) => Ok(generated),
        Err(failure) => Err(explained(round, server, failure)),
    }
}

/// The failure of requests, with the last lines of the output of the server. If the server has died, this is the
/// failure.
fn explained(round: &Round<'_>, server: &mut Process, failure: Failure) -> Stopped {
    match require_alive(round, server) {
        Ok(()) => server.explained(failure).into(),
        Err(stopped) => stopped,
    }
}

/// Runs `generator` in a thread, and meanwhile `follow`. Tells the generator to stop if that fails.
fn generate<T: Send, E: Send, F>(
    server: &mut Process,
    generator: impl FnOnce(&AtomicBool) -> Result<T, E> + Send,
    follow: impl FnOnce(&mut Process, &dyn Fn() -> bool) -> Result<F, Stopped>,
) -> Result<(Result<T, E>, F), Stopped> {
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let running = thread::Builder::new().spawn_scoped(scope, || generator(&stop)).map_err(
            |error: io::Error| Failure::runner(format!("cannot start a thread: {error}")),
        )?;
        let followed = follow(server, &|| running.is_finished());
        if followed.is_err() {
            stop.store(true, Ordering::Relaxed);
        }
        let result = running.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        match followed {
            Ok(followed) => Ok((result, followed)),
            Err(stopped) => Err(stopped),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_measured_part_that_knee_could_not_follow_is_no_failure_unless_it_is_too_short() {
        assert!(followed(None, 1.0).unwrap().is_none());
        let failure = followed(None, 0.005).err().unwrap();
        assert!(failure.remedy.contains("--interval of at least 0.05 s"), "{failure:?}");
    }
}
