//! Counters of processes.

use std::io;
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::process::{Pid, Resource, getrlimit};
use rustix::time::ClockId;

use super::counter::Counter;
use super::event::{self, Begin};
use super::set::CounterSet;
use super::totals::{Total, Totals};
use crate::clock::seconds;

/// Open counters of some processes.
#[derive(Debug)]
pub struct Counters(Vec<(Counter, OwnedFd)>);

/// The counters of a process cannot be opened.
#[derive(Debug, thiserror::Error)]
#[error("cannot count {counter}: {error}")]
pub struct CounterError {
    counter: Counter,
    #[source]
    error: io::Error,
}

impl CounterError {
    /// What to do about it.
    pub fn remedy(&self) -> String {
        match Errno::from_io_error(&self.error) {
            Some(Errno::MFILE | Errno::NFILE) => {
                let files = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
                format!(
                    "each process needs an open file for each counter, and the limit is {files}; raise \
                     it (ulimit -n), or name fewer counters (--counters=LIST)"
                )
            }
            _ => "leave out --counters".to_owned(),
        }
    }
}

impl Counters {
    /// Counts `set` for `processes` from now on, and for the threads and processes that they create from now on.
    ///
    /// # Errors
    /// The kernel refuses one of the counters.
    pub fn of_running(set: &CounterSet, processes: &[Pid]) -> Result<Self, CounterError> {
        Self::open(set, processes, Begin::Now)
    }

    /// Like [`Counters::of_running`], but from the time at which each of `processes` executes a program.
    ///
    /// # Errors
    /// The kernel refuses one of the counters.
    pub fn from_exec(set: &CounterSet, processes: &[Pid]) -> Result<Self, CounterError> {
        Self::open(set, processes, Begin::AtExec)
    }

    fn open(set: &CounterSet, processes: &[Pid], begin: Begin) -> Result<Self, CounterError> {
        let each = |pid: &Pid| {
            let pid = pid.as_raw_pid();
            set.counters.iter().map(move |&counter| {
                match event::open(counter, pid, set.user_only, begin) {
                    Ok(event) => Ok((counter, event)),
                    Err(error) => Err(CounterError { counter, error }),
                }
            })
        };
        processes.iter().flat_map(each).collect::<Result<_, CounterError>>().map(Self)
    }

    /// The sums so far.
    pub fn read(&self) -> Totals {
        let begun = seconds(ClockId::MonotonicRaw);
        let read = |(counter, event): &(Counter, OwnedFd)| (*counter, Total::read(event));
        let totals = self.0.iter().map(read).collect();
        // Reading the counters of thousands of processes takes a while.
        Totals { at: (begun + seconds(ClockId::MonotonicRaw)) / 2.0, totals }
    }
}
