//! The latency of a server at a share of its rate.
//!
//! In a closed loop, a server that is slow gets fewer requests, and its latency depends on the number of
//! connections alone. Independent users send requests whether the server keeps up or not. So the
//! generator sends them on a schedule here, and their latency counts from the schedule.

use std::time::Duration;

use knee_host::number::{percent, si};
use knee_results::Latency;

use super::generator::{Generated, LoadJob};
use super::process::Process;
use super::requests::{checked, generated};
use super::round::Round;
use crate::job::{Failure, FailureKind};
use crate::stopped::Stopped;

/// How long to wait for the replies to the requests that were due. A server that has stalled catches up
/// in this time, so that the latencies of all requests are known.
const PATIENCE: Duration = Duration::from_secs(10);
/// Advice for replies that were late, although those of the closed loop were not.
const LATE_ADVICE: &str = "use a smaller share, such as --latency=50%, a longer --interval for a server that gets few requests, or \
     leave out latency with --latency=off";
/// Further advice for other failures.
const OFF: &str = "or leave out latency with --latency=off";

/// What was measured.
pub(super) struct OpenLoop {
    /// The latency, or why it could not be measured.
    pub(super) latency: Result<Latency, Failure>,
    /// Whether other work may have slowed down the server meanwhile.
    pub(super) is_disturbed: bool,
}

/// Sends the requests of `closed` again, at a `share` of the rate that they reached.
///
/// # Errors
/// A signal asked knee to stop, or the observer returned an error. A failure is part of the result, so that
/// it does not cost the round its rate.
pub(super) fn measure(
    round: &Round<'_>,
    server: &mut Process,
    closed: &LoadJob,
    (share, reached): (f64, f64),
) -> Result<OpenLoop, Stopped> {
    let rate = share * reached;
    let load = LoadJob { rate: Some(rate), patience: PATIENCE.as_secs_f64(), ..closed.clone() };
    let mut is_disturbed = false;
    let outcome = generated(round, server, &load).and_then(|(outcome, usage)| {
        is_disturbed = outcome.as_ref().is_ok_and(|outcome| {
            usage.is_none_or(|usage| round.is_disturbed(&usage, outcome.cpu, outcome.seconds))
        });
        checked(round, server, outcome)
    });
    let latency = match outcome {
        Ok(Generated { latency, lateness, .. }) => Ok(Latency {
            times: latency.unwrap_or_default(),
            lateness,
            rate: Some(rate),
            clock: None,
        }),
        Err(Stopped::Failed(failure)) => Err(failed(failure, share, rate)),
        Err(stopped) => return Err(stopped),
    };
    Ok(OpenLoop { latency, is_disturbed })
}

/// The failure of a measurement at this `share` of the rate, with advice.
fn failed(failure: Failure, share: f64, rate: f64) -> Failure {
    Failure {
        reason: format!(
            "while measuring latency at {} of the rate ({}/s): {}",
            percent(share),
            si(rate),
            failure.reason
        ),
        remedy: match failure.kind {
            FailureKind::Hung => LATE_ADVICE.to_owned(),
            _ => format!("{}, {OFF}", failure.remedy),
        },
        ..failure
    }
}
