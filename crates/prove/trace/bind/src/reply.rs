//! The replies of threads to the main thread.

use std::any::Any;
use std::fmt::{self, Display, Formatter};
use std::time::Duration;

use crate::Returned;

/// The result of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Reply {
    /// The call returned.
    Returned(Returned),
    /// The call panicked.
    Panicked(String),
    /// The call was not made: the binding does not have the operation, or cannot read its
    /// arguments.
    NotPrepared(String),
    /// Iterations have been timed.
    Timed {
        /// How many.
        iterations: u64,
        /// How long they took.
        time: Duration,
    },
}

impl Display for Reply {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Returned(returned) => returned.fmt(f),
            Self::Panicked(message) => write!(f, "panicked: {message}"),
            Self::NotPrepared(why) => f.write_str(why),
            Self::Timed { iterations, time } => write!(f, "{iterations} iterations in {time:?}"),
        }
    }
}

/// The most characters of the message of a panic. An assertion can print two large collections.
const LONGEST_MESSAGE: usize = 1000;

/// Returns the message of a panic.
pub(crate) fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    let text = text.unwrap_or_else(|| "the binding panicked without a message".to_owned());
    match text.char_indices().nth(LONGEST_MESSAGE) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}
