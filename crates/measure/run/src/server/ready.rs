//! Waiting until a server is ready.

use std::time::{Duration, Instant};

use knee_host::listener::Listener;
use knee_host::users;
use knee_load::Target;

use super::process::{Process, watch};
use super::round::Round;
use crate::job::{Failure, FailureKind};
use crate::stopped::Stopped;

/// How often to look whether the server is ready.
const LOOK: Duration = Duration::from_millis(10);

/// The address at which the server of `round` accepts connections, if its description has one.
pub(super) fn address(round: &Round<'_>) -> Result<Option<Target>, Failure> {
    let description = &round.server;
    let ready = &description.ready;
    let address = ready.connect.as_ref().or(description.load.address.as_ref());
    address.map(|address| target(round, address)).transpose()
}

/// The target with this address.
fn target(round: &Round<'_>, address: &str) -> Result<Target, Failure> {
    round.values.fill(address).parse().map_err(|error: knee_load::TargetError| {
        let remedy = "correct the address in the description, or choose a shorter --dir";
        Failure::new(FailureKind::CannotRun, error.to_string(), remedy)
    })
}

/// Fails if another program already listens at the address of the server.
pub(super) fn require_unused(round: &Round<'_>) -> Result<(), Failure> {
    match address(round)? {
        Some(target) if target.check().is_ok() => Err(Failure::new(
            FailureKind::CannotRun,
            format!("{target} is in use: another program accepts connections there"),
            "stop this program, or use {port} as the port in the description",
        )),
        _ => Ok(()),
    }
}

/// The target with this address, at which `server` accepts connections. Fails if a program of another user does. It may
/// have taken the port while the port was free, and many servers do not end then, but try again for a while.
pub(super) fn own_target(
    round: &Round<'_>,
    server: &Process,
    address: &str,
) -> Result<Target, Failure> {
    let target = target(round, address)?;
    require_own(round, server, &target)?;
    Ok(target)
}

fn require_own(round: &Round<'_>, server: &Process, target: &Target) -> Result<(), Failure> {
    let listeners = target.listeners().map_err(|error| {
        let reason = format!("cannot find out which program listens at {target}: {error}");
        let remedy = "correct [ready] and load.address in the description";
        Failure::new(FailureKind::CannotRun, reason, remedy)
    })?;
    let is_trusted =
        |user| users::is_trusted(user) || round.user_id() == Some(user) && users::identifies(user);
    // The server may have changed its user.
    let is_own = |listener: &Listener| {
        is_trusted(listener.user) || server.processes().any(|pid| listener.is_open_in(pid))
    };
    match listeners.iter().find(|listener| !is_own(listener)) {
        None => Ok(()),
        Some(other) => {
            let user = other.user;
            let reason = format!(
                "a program of user {user}, not the server, accepts connections at {target}"
            );
            let remedy = "stop this program, or use {port} as the port in the description; if it is \
                          your server in a container, publish the container's port";
            Err(Failure::new(FailureKind::CannotRun, reason, remedy))
        }
    }
}

/// Waits until the server is ready.
pub(super) fn wait(round: &Round<'_>, server: &mut Process) -> Result<(), Stopped> {
    let limit = round.server.ready.seconds.unwrap_or(round.job.start_timeout);
    let deadline = Instant::now() + Duration::from_secs_f64(limit);
    let target = address(round)?;
    let mut unready = None;
    loop {
        if let Some(end) = server.end() {
            let remedy = match end.success() {
                true => "a server must stay in the foreground",
                false => "run the command by hand to see why it ends",
            };
            return Err(server.death("before it was ready", remedy).into());
        }
        let ready = &round.server.ready;
        let is_ready = match (&ready.output, &ready.command, &target) {
            (Some(text), ..) => server.has_printed(&round.values.fill(text)),
            (_, Some(line), _) => {
                unready = failed(round, server, line, deadline, unready)?;
                unready.is_none()
            }
            (_, _, Some(target)) => {
                let is_ready = target.check().is_ok();
                if is_ready {
                    require_own(round, server, target)?;
                }
                is_ready
            }
            (None, None, None) => true,
        };
        if is_ready {
            return Ok(());
        }
        if Instant::now() >= deadline {
            let sign = match (&ready.output, &ready.command, target) {
                (Some(text), ..) => format!("it did not print {text:?}"),
                (_, Some(_), _) => unready.unwrap_or_default(),
                (.., target) => {
                    let address = target.map_or(String::new(), |target| target.to_string());
                    format!("it did not accept connections at {address}")
                }
            };
            let what = format!("was not ready within {limit} s: {sign}");
            let is_described =
                ready.output.is_some() || ready.command.is_some() || ready.connect.is_some();
            let remedy = match ready.seconds {
                None if !is_described => {
                    "the server must accept connections at load.address; correct its command or this address, or use \
                     a longer --start-timeout"
                }
                Some(_) => "correct [ready] in the description, or increase its seconds",
                None => "correct [ready] in the description, or use a longer --start-timeout",
            };
            return Err(server.failure(FailureKind::Hung, &what, remedy).into());
        }
        watch(&mut [server], Instant::now() + LOOK, round.interrupt)?;
    }
}

/// How the command `line` failed, in words; `None` if it has succeeded. If the deadline cuts it off, how it failed `before`.
fn failed(
    round: &Round<'_>,
    server: &mut Process,
    line: &str,
    deadline: Instant,
    before: Option<String>,
) -> Result<Option<String>, Stopped> {
    let mut check = round.start("the ready command", line, round.places.beside())?;
    while check.end().is_none() && server.end().is_none() && Instant::now() < deadline {
        watch(&mut [server, &mut check], deadline, round.interrupt)?;
    }
    Ok(match check.end() {
        Some(end) if end.success() => None,
        Some(_) => Some(check.death("", "").reason),
        None => before.or_else(|| Some(check.failure(FailureKind::Hung, "did not end", "").reason)),
    })
}
