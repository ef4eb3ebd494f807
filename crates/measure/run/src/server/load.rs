//! The load on a server that is ready.

use super::follow::Measured;
use super::process::Process;
use super::round::Round;
use super::{commanded, requests};
use crate::description::Generator;
use crate::stopped::Stopped;

/// Puts load on `server`, and returns what was measured.
pub(super) fn measure(round: &Round<'_>, server: &mut Process) -> Result<Measured, Stopped> {
    match round.server.generator() {
        Generator::Requests(address) => requests::measure(round, server, address),
        Generator::Command(line) => commanded::measure(round, server, line),
    }
}

/// Sends the requests that fill the server.
pub(super) fn fill(round: &Round<'_>, server: &mut Process) -> Result<(), Stopped> {
    match round.server.generator() {
        Generator::Requests(address) => requests::fill(round, server, address),
        Generator::Command(_) => Ok(()),
    }
}
