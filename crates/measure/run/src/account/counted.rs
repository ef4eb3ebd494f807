//! Events of the processors and the kernel in an interval.

use knee_host::counters::{CounterError, CounterSet, Counters, Totals};
use knee_results::Counts;
use rustix::process::Pid;

use crate::job::{Failure, FailureKind};

/// Open counters, and their sums at the start of the interval.
pub(crate) struct CountedEvents {
    counters: Counters,
    before: Totals,
}

impl CountedEvents {
    /// Counts for `processes`, which are held, from now on. `None` if nothing is requested.
    ///
    /// # Errors
    /// The kernel refuses a counter.
    pub(crate) fn of_held(
        set: Option<&CounterSet>,
        processes: &[Pid],
    ) -> Result<Option<Self>, Failure> {
        Self::open(set, processes, Counters::of_running)
    }

    /// Like [`CountedEvents::of_held`], but without the events before each process executes its program.
    pub(crate) fn of_programs(
        set: Option<&CounterSet>,
        processes: &[Pid],
    ) -> Result<Option<Self>, Failure> {
        Self::open(set, processes, Counters::from_exec)
    }

    fn open(
        set: Option<&CounterSet>,
        processes: &[Pid],
        open: fn(&CounterSet, &[Pid]) -> Result<Counters, CounterError>,
    ) -> Result<Option<Self>, Failure> {
        let Some(set) = set else { return Ok(None) };
        let counters = open(set, processes).map_err(|error| {
            Failure::new(FailureKind::CannotRun, error.to_string(), error.remedy())
        })?;
        let before = counters.read();
        Ok(Some(Self { counters, before }))
    }

    /// The events since the last call, or since counting began.
    pub(crate) fn since_last(&mut self) -> Counts {
        let now = self.counters.read();
        let before = std::mem::replace(&mut self.before, now);
        Counts::new(self.before.at - before.at, self.before.since(&before))
    }
}
