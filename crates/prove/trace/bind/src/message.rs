//! The messages that a binding sends to knee.

use std::io::{self, Write};

use knee_commute::TestOutcome as Outcome;
use serde::{Deserialize, Serialize};

use crate::calibration::Trial;

/// The prefix of a line in which a binding sends knee a [`Message`], as JSON. The prefix distinguishes these
/// lines from what the library writes to standard output.
pub const MESSAGE_PREFIX: &str = "knee-bind ";

/// A message of a binding to knee.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Message {
    /// A line of the binding's `/proc/self/maps`. These messages precede the first test.
    Mapping(String),
    /// The trials that the binding runs before its first test; the plugin counts them as tests.
    /// This message precedes the mappings.
    Trials(Vec<Trial>),
    /// An address in the stack of a thread that makes calls. These messages follow the mappings.
    Thread(u64),
    /// A test has ended. The binding runs tests in the order in which it receives them.
    Done {
        /// The ID of the test.
        id: String,
        /// The outcome of the test.
        outcome: Outcome,
        /// The number of runs that the plugin traced.
        seen: u64,
    },
    /// Calls have been timed.
    Timed {
        /// The ID of the request.
        id: String,
        /// Iterations per second of each thread.
        rates: Vec<f64>,
    },
}

/// Writes a message with a single call and flushes it, because the program may crash in the next test.
pub(crate) fn send(out: &mut impl Write, message: &Message) -> io::Result<()> {
    let message = serde_json::to_string(message)?;
    out.write_all(format!("{MESSAGE_PREFIX}{message}\n").as_bytes())?;
    out.flush()
}
