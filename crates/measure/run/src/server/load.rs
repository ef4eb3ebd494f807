//! The load on a server that is ready, and what it measures.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use knee_load::{Load, LoadError, Outcome, Pace, Request, Target};

use super::process::{Process, watch};
use super::ready::own_target;
use super::round::Round;
use super::usage::{Usage, Window};
use crate::command::rate;
use crate::description::{Generator, RequestDescription};
use crate::job::{Failure, FailureKind};
use crate::placeholders::SECONDS;
use crate::stopped::Stopped;

/// How often to look whether the generator is done.
const LOOK: Duration = Duration::from_millis(20);
/// The part of a command with `{seconds}` in which its load is steady: it has opened its connections, and
/// does not close them yet. The CPU time of this part counts.
const STEADY: [f64; 2] = [0.2, 0.9];
/// How much longer than `{seconds}` a command may take.
const COMMAND_PATIENCE: Duration = Duration::from_secs(60);
/// Seconds to wait for the replies to the last requests of a closed loop.
const PATIENCE: f64 = 1.0;
/// How long a server that broke its connections may take to end.
const DEATH_PATIENCE: Duration = Duration::from_millis(200);
/// Advice for failed requests.
const ADVICE: &str = "send the same request by hand, or correct the request in the description";

/// What was measured.
pub(super) struct Measured {
    /// Requests per second.
    pub(super) rate: f64,
    /// The length of the measurement.
    pub(super) seconds: f64,
    pub(super) usage: Usage,
    /// Share of the time of the load's CPUs that the load used.
    pub(super) load_busy: f64,
    /// CPU seconds of the load in this time.
    pub(super) load_cpu: f64,
    /// The requests, if knee sent them.
    pub(super) requests: Option<Load>,
}

/// When the measured part of a load begins and ends, and when it must have ended.
struct Times {
    begin: Instant,
    end: Option<Instant>,
    limit: Instant,
}

/// Puts load on `server`.
pub(super) fn measure(round: &Round<'_>, server: &mut Process) -> Result<Measured, Stopped> {
    match round.server.generator() {
        Generator::Requests(address) => {
            let target = own_target(round, server, address)?;
            requests(round, server, target)
        }
        Generator::Command(line) => command(round, server, line),
    }
}

/// Sends the requests that fill the server.
pub(super) fn fill(round: &Round<'_>, server: &mut Process) -> Result<(), Stopped> {
    let Generator::Requests(address) = round.server.generator() else { return Ok(()) };
    let target = own_target(round, server, address)?;
    let patience = Duration::from_secs_f64(round.job.start_timeout);
    for fill in &round.server.fill {
        let request = parsed(&fill.request)?;
        let (filled, _) = generate(
            server,
            |stop| knee_load::exchange(&target, &request, fill.count, patience, stop),
            |server, is_done| follow(round, &mut [server], None, is_done),
        )?;
        filled.map_err(|error| failed(&error))?;
    }
    Ok(())
}

fn requests(round: &Round<'_>, server: &mut Process, target: Target) -> Result<Measured, Stopped> {
    let description = &round.server.load;
    let requests =
        description.request.iter().map(parsed).collect::<Result<Vec<Request>, Failure>>()?;
    let load = Load {
        target,
        requests,
        connections: description.connections.get() as usize,
        pace: Pace::Closed,
        reconnect: description.reconnect,
        warmup: round.job.warmup,
        seconds: round.job.interval,
        patience: PATIENCE,
        cpus: round.places.load.clone(),
    };
    let (outcome, usage) = generated(round, server, &load)?;
    let outcome = checked(round, server, outcome)?;
    let usage = usage.ok_or_else(|| Failure::runner("the load ended before its measurement"))?;
    Ok(Measured {
        rate: outcome.rate(),
        seconds: outcome.seconds,
        usage,
        load_busy: outcome.busy(),
        load_cpu: outcome.cpu,
        requests: Some(load),
    })
}

/// Generates `load`. Returns its outcome, which the caller [checks](checked), and the CPU time in the
/// measured part.
pub(super) fn generated(
    round: &Round<'_>,
    server: &mut Process,
    load: &Load,
) -> Result<(Result<Outcome, LoadError>, Option<Usage>), Stopped> {
    let begin = Instant::now() + Duration::from_secs_f64(load.warmup);
    let end = begin + Duration::from_secs_f64(load.seconds);
    let times = Times { begin, end: Some(end), limit: end + COMMAND_PATIENCE };
    generate(
        server,
        |stop| knee_load::run(load, stop),
        |server, is_done| follow(round, &mut [server], Some(&times), is_done),
    )
}

/// The outcome of a load of which every request got a correct reply; otherwise the failure.
pub(super) fn checked(
    round: &Round<'_>,
    server: &mut Process,
    outcome: Result<Outcome, LoadError>,
) -> Result<Outcome, Stopped> {
    let failure = match outcome {
        Ok(outcome) if outcome.failures.count() == 0 => return Ok(outcome),
        Ok(outcome) => wrong(&outcome),
        Err(error) => failed(&error),
    };
    require_alive(round, server)?;
    Err(failure.into())
}

fn command(round: &Round<'_>, server: &mut Process, line: &str) -> Result<Measured, Stopped> {
    let begun = Instant::now();
    let mut load = round.start("the load", line, &round.places.load)?;
    let interval = round.job.interval;
    let after = |share: f64| begun + Duration::from_secs_f64(share * interval);
    let is_steady = line.contains(SECONDS);
    let times = Times {
        begin: if is_steady { after(STEADY[0]) } else { begun },
        end: is_steady.then(|| after(STEADY[1])),
        limit: after(1.0) + COMMAND_PATIENCE,
    };
    let usage = follow(round, &mut [server, &mut load], Some(&times), &|| false)?;
    let seconds = begun.elapsed().as_secs_f64();
    let Some(end) = load.end() else {
        let limit = (times.limit - begun).as_secs_f64();
        let what = format!("did not end within {limit:.0} s");
        let remedy = "limit its run time to {seconds}";
        return Err(load.failure(FailureKind::Hung, &what, remedy).into());
    };
    if !end.success() {
        require_alive(round, server)?;
        return Err(load.death("", "run the command by hand to see why").into());
    }
    let read = round.server.load.read.as_deref();
    let rate = rate::printed(&load.stdout, &load.line, read).map_err(|failure| Failure {
        remedy: "correct load.read in the description: the text around the rate, such as 'tps = #'"
            .to_owned(),
        ..failure
    })?;
    let usage = usage.ok_or_else(|| {
        let remedy = "use {seconds} for its run time, and a longer --interval";
        load.failure(FailureKind::Died, "ended before it was measured", remedy)
    })?;
    let had = usage.seconds * round.places.load.len() as f64;
    let load_busy = if had > 0.0 { (usage.load / had).min(1.0) } else { 0.0 };
    let load_cpu = usage.load * seconds / usage.seconds;
    Ok(Measured { rate, seconds, load_busy, load_cpu, requests: None, usage })
}

/// Fails if the server has died, which is the cause of a failed load. A dying server may break its connections a
/// moment before it ends.
fn require_alive(round: &Round<'_>, server: &mut Process) -> Result<(), Stopped> {
    let until = Instant::now() + DEATH_PATIENCE;
    while server.end().is_none() && Instant::now() < until {
        watch(&mut [server], until, round.interrupt)?;
    }
    match server.end() {
        Some(_) => Err(round.dead(server).into()),
        None => Ok(()),
    }
}

/// Runs `generator` in a thread, and meanwhile `follow`. Tells the generator to stop if that fails.
fn generate<T: Send, F>(
    server: &mut Process,
    generator: impl FnOnce(&AtomicBool) -> Result<T, LoadError> + Send,
    follow: impl FnOnce(&mut Process, &dyn Fn() -> bool) -> Result<F, Stopped>,
) -> Result<(Result<T, LoadError>, F), Stopped> {
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

/// Follows the server, which is the first of `processes`, and the command that puts load on it, until the
/// load is done. Returns the CPU time in the measured part.
fn follow(
    round: &Round<'_>,
    processes: &mut [&mut Process],
    times: Option<&Times>,
    is_done: &dyn Fn() -> bool,
) -> Result<Option<Usage>, Stopped> {
    let (mut window, mut usage) = (None::<Window>, None);
    loop {
        let now = Instant::now();
        let [server, loads @ ..] = &mut *processes else { unreachable!("there is a server") };
        let has_ended = is_done() || loads.iter().any(|load| load.end().is_some());
        if let Some(times) = times {
            let load = loads.first().map(|load| &**load);
            let is_over = has_ended || times.end.is_some_and(|end| now >= end);
            if is_over && let Some(window) = window.take() {
                usage = window.close(server, load);
                round.tell(|observer| observer.end())?;
            }
            // On a busy machine, this may happen late.
            if window.is_none() && usage.is_none() && !has_ended && now >= times.begin {
                round.tell(|observer| observer.begin())?;
                window = Some(Window::open(&round.places, server, load));
            }
        }
        if window.is_some() {
            round.tell(|observer| observer.measuring())?;
        }
        // The server first: if it has died, it is the reason for the end of the load.
        if server.end().is_some() {
            return Err(round.dead(server).into());
        }
        if has_ended || times.is_some_and(|times| now >= times.limit) {
            return Ok(usage);
        }
        let edges = times.into_iter().flat_map(|times| [Some(times.begin), times.end]).flatten();
        let next = edges.filter(|edge| *edge > now).chain([now + LOOK]).min().unwrap_or(now);
        watch(processes, next, round.interrupt)?;
    }
}

fn parsed(request: &RequestDescription) -> Result<Request, Failure> {
    // It was checked when the description was read; a record may have been changed.
    request.parsed().map_err(|reason| Failure::new(FailureKind::CannotRun, reason, ADVICE))
}

/// The failure of a load without a result.
fn failed(error: &LoadError) -> Failure {
    let kind = match error {
        LoadError::Idle => {
            let reason = "no reply arrived in the measured time";
            let remedy = "use a longer --interval, or find out what the server is waiting for";
            return Failure::new(FailureKind::Hung, reason, remedy);
        }
        LoadError::System(_) => FailureKind::CannotRun,
        LoadError::Unreachable(_) | LoadError::Nothing(_) | LoadError::Request { .. } => {
            FailureKind::Died
        }
    };
    Failure::new(kind, error.to_string(), ADVICE)
}

/// The failure of a load with failed requests.
fn wrong(outcome: &Outcome) -> Failure {
    let failures = &outcome.failures;
    let all = outcome.replies + failures.count();
    let first = failures.first.as_deref().unwrap_or("unknown");
    let reason = format!("{} of {all} requests failed: {first}", failures.count());
    let kind =
        if failures.unanswered == failures.count() { FailureKind::Hung } else { FailureKind::Died };
    Failure::new(kind, reason, ADVICE)
}
