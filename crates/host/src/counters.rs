//! Events of the processors and the kernel, counted for processes with their threads and descendants.
//!
//! Nothing is sampled: the kernel adds up the events of a process while it runs, and knee reads the sums. The
//! cost is that of switching the counters together with the processes, and of creating them for each new
//! process.
//!
//! ```no_run
//! use knee_host::counters::{Counter, CounterSet, Counters};
//!
//! let set = CounterSet::find(&[Counter::PageFaults, Counter::Cycles])?;
//! let counters = Counters::of_running(&set, &[rustix::process::getpid()])?;
//! let before = counters.read();
//! // … work
//! println!("{:?}", counters.read().since(&before));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod counter;
mod event;
mod open;
mod set;
mod totals;

pub use self::counter::Counter;
pub use self::open::{CounterError, Counters};
pub use self::set::{CounterSet, NoCounters};
pub use self::totals::{Counted, Totals};

#[cfg(test)]
mod tests;
