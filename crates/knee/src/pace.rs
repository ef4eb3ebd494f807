//! How often a command says how far it is.

use std::time::{Duration, Instant};

/// Between two lines of progress; the first comes after as long, so that short work says nothing.
const INTERVAL: Duration = Duration::from_secs(5);

/// Says when it is time for another line of progress.
pub(crate) struct Pace {
    last: Instant,
}

impl Pace {
    /// Of work that begins now.
    pub(crate) fn begin() -> Self {
        Self { last: Instant::now() }
    }

    /// Whether a line is due, which is then taken to have been told.
    pub(crate) fn is_due(&mut self) -> bool {
        let due = self.last.elapsed() >= INTERVAL;
        if due {
            self.last = Instant::now();
        }
        due
    }
}
