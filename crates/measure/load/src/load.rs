//! What to measure.

use crate::request::Request;
use crate::target::Target;

/// When requests are sent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Pace {
    /// As soon as the reply to the previous request on the connection is complete.
    Closed,
    /// At fixed times.
    Open {
        /// Requests per second, over all connections.
        rate: f64,
    },
}

/// What to measure.
#[derive(Debug, Clone, PartialEq)]
pub struct Load {
    /// The server.
    pub target: Target,
    /// The requests; not empty. Each time, the generator chooses one at random, by weight.
    pub requests: Vec<Request>,
    /// Number of connections, at least one.
    pub connections: usize,
    /// When requests are sent.
    pub pace: Pace,
    /// Whether each request has a connection of its own.
    pub reconnect: bool,
    /// Seconds before the measurement begins.
    pub warmup: f64,
    /// Seconds of the measurement.
    pub seconds: f64,
    /// Seconds after the end for which to wait for replies. A request without a reply has then failed.
    pub patience: f64,
    /// The CPUs of the workers, one each; not empty.
    pub cpus: Vec<u32>,
}

/// Why nothing could be measured.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The server accepts no connection.
    #[error("cannot connect: {0}; is the server running?")]
    Unreachable(std::io::Error),
    /// No request had a correct reply. Contains the first failure.
    #[error("no request got a correct reply: {0}")]
    Nothing(String),
    /// A request of an [exchange](crate::exchange) got no correct reply.
    #[error("request {number} got no correct reply: {reason}")]
    Request {
        /// Its number, from 0.
        number: u64,
        /// Why.
        reason: String,
    },
    /// No reply arrived in the measured time, although none was wrong or missing.
    #[error(
        "no reply arrived in the measured time; measure longer (-d), or send more requests (--rate)"
    )]
    Idle,
    /// A system call of a worker failed, other than those of its connections.
    #[error("cannot generate load: {0}")]
    System(#[from] std::io::Error),
}
