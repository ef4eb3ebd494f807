//! Servers under load as testcases.
//!
//! A [`Server`] is described by a TOML file. A round starts it in a private directory, waits until it is
//! ready, puts load on it, and stops it:
//!
//! ```text
//! files → setup → server … ready → prepare, fill → load → stop
//! ```
//!
//! After the rate, a round measures the latency if the run asks for it. If that fails, the round keeps its
//! rate, and its sample contains the reason.
//!
//! At a point with n tasks, the server has the first n CPUs of the placement. The load has [other
//! CPUs](Places), because it would take CPU time from the server, or runs on another host. A point at which the
//! server is not busy does not show how fast the server is.

mod commanded;
mod follow;
mod generator;
mod host;
mod load;
mod open_loop;
mod output;
mod places;
mod process;
mod programs;
mod ready;
mod requests;
mod round;
mod tree;
mod usage;
mod user;

use std::path::Path;
use std::time::Duration;

use knee_host::Interrupt;
use knee_results::{LatencyRequest, Mark, ServerUse};

pub use self::generator::{LoadJob, LoadReport};
pub use self::output::BEGUN;
pub use self::places::{Places, unshared};
pub use self::programs::check;
pub use self::round::{require_connections, require_open_files};
pub use crate::description::{
    DescriptionError, Fill, LoadDescription, Program, Ready, RequestDescription, Server,
    ServerCommand, Stop, StopSignal, schema,
};
pub use crate::placeholders::{CONNECTIONS, HERE};

use self::open_loop::OpenLoop;
use self::round::Round;
use self::usage::Usage;
use crate::job::{Failure, FailureKind, Job, Phase, Sample};
use crate::needs::blaming_full_disk;
use crate::observer::RoundObserver;
use crate::stopped::Stopped;

/// Measures one round of `server`, whose description is in the directory `here`, and tells `observer` of its
/// course. Returns the measured part of the load, and the whole round with the marks that apply to both.
pub(crate) fn run(
    server: &Server,
    here: &Path,
    job: &Job,
    interrupt: &Interrupt,
    observer: &mut dyn RoundObserver,
) -> Result<[Sample; 2], Stopped> {
    check(server)?;
    server.check_seconds(job.interval).map_err(|reason| {
        Failure::new(FailureKind::CannotRun, reason, "change --interval or --duration")
    })?;
    let mut round = Round::prepare(server, here, job, interrupt, observer)?;
    ready::require_unused(&round)?;
    let mut cpus = [&round.places.server[..], &round.places.load].concat();
    cpus.sort_unstable();
    cpus.dedup();
    let reference = knee_reference::speed_on(&cpus);
    let (measured, open_loop, killed) = serve(&round).map_err(|stopped| match stopped {
        Stopped::Failed(failure) => blaming_full_disk(failure, &job.dir, 0).into(),
        stopped => stopped,
    })?;
    if let Some(host) = round.host.take() {
        host.close(interrupt)?;
    }
    let usage = measured.usage.as_ref();
    let used = usage.map(|usage| ServerUse {
        server_cpu: usage.server * measured.seconds / usage.seconds,
        server_busy: usage.busy(),
        load_cpu: measured.load_cpu,
        load_busy: measured.load_busy,
        shared: round.places.shared,
    });
    let is_disturbed = measured.is_disturbed(&round);
    let is_disturbed_later = open_loop.as_ref().is_some_and(|measured| measured.is_disturbed);
    let (latency, latency_failure) = match open_loop.map(|measured| measured.latency).transpose() {
        Ok(latency) => (latency, None),
        Err(failure) => (None, Some(failure)),
    };
    let sample = Sample {
        phase: Phase::Measure,
        seconds: measured.seconds,
        rates: vec![measured.rate],
        cpu: usage.map(|usage| usage.server_cpus.cpus.shares),
        lost: usage.filter(|_| round.has_own_cpus()).map(Usage::lost),
        reference,
        memory: None,
        server: used,
        latency: None,
        latency_failure: None,
        counters: None,
        left_running: Vec::new(),
        marks: vec![Mark::Starved; usize::from(is_disturbed)],
    };
    let whole = Sample {
        phase: Phase::Round,
        reference: knee_reference::speed_on(&cpus),
        left_running: killed,
        // The rate may be sound, but the latency shares its round.
        marks: vec![Mark::Starved; usize::from(is_disturbed || is_disturbed_later)],
        ..sample.clone()
    };
    let counters = measured.usage.and_then(|usage| usage.counts);
    Ok([Sample { latency, latency_failure, counters, ..sample }, whole])
}

/// Starts the server of `round`, measures it, and stops it. Returns the names of the programs too that ignored the
/// request to stop.
fn serve(round: &Round<'_>) -> Result<(follow::Measured, Option<OpenLoop>, Vec<String>), Stopped> {
    let description = round.server;
    for line in &description.setup {
        round.run("the setup command", line, None)?;
    }
    let mut server = round.start_server()?;
    ready::wait(round, &mut server)?;
    for line in &description.prepare {
        round.run("the prepare command", line, Some(&mut server))?;
    }
    load::fill(round, &mut server)?;
    round.tell(|observer| observer.ready(&[server.root()]))?;
    let measured = load::measure(round, &mut server)?;
    let open_loop = match (round.job.latency, &measured.requests) {
        (Some(LatencyRequest::Requests { share }), Some(requests)) => {
            Some(open_loop::measure(round, &mut server, requests, (share, measured.rate))?)
        }
        _ => None,
    };
    let patience = Duration::from_secs_f64(description.stop.seconds);
    let killed = server.stop(patience, round.interrupt)?;
    Ok((measured, open_loop, killed))
}
