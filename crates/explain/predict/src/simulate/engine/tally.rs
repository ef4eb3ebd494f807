//! How busy a line or lock was.

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
}
