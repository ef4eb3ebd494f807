//! The server and its load while the load runs.

use std::time::{Duration, Instant};

use super::generator::LoadJob;
use super::process::{Process, watch};
use super::round::Round;
use super::usage::{Usage, Window};
use crate::job::{Failure, FailureKind};
use crate::stopped::Stopped;

/// How often to look whether the generator is done.
const LOOK: Duration = Duration::from_millis(20);
/// How much longer than its measurement a load may take.
pub(super) const LOAD_PATIENCE: Duration = Duration::from_secs(60);
/// How long a load on another host may take to begin.
const BEGIN_PATIENCE: Duration = Duration::from_secs(60);
/// How long a server that broke its connections may take to end.
const DEATH_PATIENCE: Duration = Duration::from_millis(200);

/// What was measured.
pub(super) struct Measured {
    /// Requests per second.
    pub(super) rate: f64,
    /// The length of the measurement.
    pub(super) seconds: f64,
    /// `None` if knee could not follow the measured part, because other work occupied the CPUs.
    pub(super) usage: Option<Usage>,
    /// Share of the time of the load's CPUs that the load used.
    pub(super) load_busy: f64,
    /// CPU seconds of the load in this time.
    pub(super) load_cpu: f64,
    /// The requests, if knee sent them.
    pub(super) requests: Option<LoadJob>,
}

impl Measured {
    /// See [`Round::is_disturbed`].
    pub(super) fn is_disturbed(&self, round: &Round<'_>) -> bool {
        let usage = self.usage.as_ref();
        usage.is_none_or(|usage| round.is_disturbed(usage, self.load_cpu, self.seconds))
    }
}

/// When the measured part of a load begins and ends, and when it must have ended.
pub(super) struct Times {
    /// The start of the load; `None` until another host reports it.
    pub(super) start: Option<Instant>,
    /// From the start.
    pub(super) begin: Duration,
    pub(super) end: Option<Duration>,
    pub(super) limit: Duration,
}

/// Follows the server, which is the first of `processes`, and the command that puts load on it, until the
/// load is done. Returns the CPU time in the measured part.
pub(super) fn follow(
    round: &Round<'_>,
    processes: &mut [&mut Process],
    mut times: Option<&mut Times>,
    is_done: &dyn Fn() -> bool,
) -> Result<Option<Usage>, Stopped> {
    let (mut window, mut usage) = (None::<Window>, None);
    let asked = Instant::now();
    loop {
        let now = Instant::now();
        let [server, loads @ ..] = &mut *processes else { unreachable!("there is a server") };
        let has_ended = is_done() || loads.iter().any(|load| load.end().is_some());
        let load = loads.first().map(|load| &**load);
        if let (Some(Times { start: start @ None, .. }), Some(load)) = (&mut times, load) {
            *start = load.output_of_load().map(|_| now);
        }
        let started = times.as_deref().and_then(|times| Some((times, times.start?)));
        if let Some((times, start)) = started {
            let is_over = has_ended || times.end.is_some_and(|end| now >= start + end);
            if is_over && let Some(window) = window.take() {
                usage = window.close(server, load);
                round.tell(|observer| observer.end())?;
            }
            // On a busy machine, this may happen late.
            if window.is_none() && usage.is_none() && !has_ended && now >= start + times.begin {
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
        let is_late = match (&times, started) {
            (_, Some((times, start))) => now >= start + times.limit,
            (Some(_), None) => now >= asked + BEGIN_PATIENCE,
            (None, None) => false,
        };
        if has_ended || is_late {
            return Ok(usage);
        }
        let edges = started.into_iter().flat_map(|(times, start)| {
            [Some(times.begin), times.end].into_iter().flatten().map(move |edge| start + edge)
        });
        let next = edges.filter(|edge| *edge > now).chain([now + LOOK]).min().unwrap_or(now);
        watch(processes, next, round.interrupt)?;
    }
}

/// The failure of a load that did not end in time, with this `remedy`, or that did not begin on its host.
pub(super) fn endless(load: &Process, times: &Times, remedy: &str) -> Failure {
    let (what, remedy) = match times.start {
        Some(_) => (format!("did not end within {:.0} s", times.limit.as_secs_f64()), remedy),
        None => {
            let limit = BEGIN_PATIENCE.as_secs();
            (format!("did not begin within {limit} s"), "log in to the host to see why")
        }
    };
    load.failure(FailureKind::Hung, &what, remedy)
}

/// Fails if the server has died, which is the cause of a failed load. A dying server may break its connections a
/// moment before it ends.
pub(super) fn require_alive(round: &Round<'_>, server: &mut Process) -> Result<(), Stopped> {
    let until = Instant::now() + DEATH_PATIENCE;
    while server.end().is_none() && Instant::now() < until {
        watch(&mut [server], until, round.interrupt)?;
    }
    match server.end() {
        Some(_) => Err(round.dead(server).into()),
        None => Ok(()),
    }
}
