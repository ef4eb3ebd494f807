//! How busy a line or lock was, and who waits for it.

use std::collections::VecDeque;

/// A task that waits.
#[derive(Debug, Clone, Copy)]
pub(super) struct Waiter<How> {
    pub(super) task: usize,
    pub(super) how: How,
    pub(super) since: f64,
}

/// Sums over the measured time.
#[derive(Debug, Clone, Default)]
pub(in super::super) struct Tally {
    /// When it became busy.
    since: Option<f64>,
    /// Time during which it was busy.
    pub(in super::super) busy: f64,
    /// Transfers or sections that kept others waiting meanwhile.
    pub(in super::super) services: u64,
    /// Those that came from another socket.
    pub(in super::super) far: u64,
    /// Sum of the times of all who waited.
    pub(in super::super) waited: f64,
}

impl Tally {
    pub(super) fn begin(&mut self, now: f64) {
        self.since = Some(now);
    }

    pub(super) fn end(&mut self, now: f64) {
        if let Some(since) = self.since.take() {
            self.busy += now - since;
        }
    }

    /// Starts again: time before `now` does not count.
    pub(super) fn restart(&mut self, now: f64) {
        *self = Self { since: self.since.map(|_| now), ..Self::default() };
    }

    /// The sums until `now`, with what has not ended. The measured time started at `start`.
    pub(super) fn until<How>(&self, start: f64, now: f64, queue: &VecDeque<Waiter<How>>) -> Self {
        let waits = queue.iter().map(|waiter| now - waiter.since.max(start));
        let mut all = self.clone();
        all.end(now);
        all.waited += waits.sum::<f64>();
        all
    }
}
