//! A load generator for request-and-reply protocols over TCP and Unix sockets.
//!
//! Each worker is a thread on a CPU of its own, with its share of the connections and one epoll
//! instance. A connection has at most one request under way. There are two ways to pace requests:
//!
//! * [`Pace::Closed`]: every connection sends its next request as soon as it has the reply to the last
//!   one. This measures the highest rate.
//! * [`Pace::Open`]: requests are due at fixed times. The latency of a request counts from the time at
//!   which it was due, and not from the time at which it was sent. A server that stalls therefore delays
//!   all requests that were due meanwhile, as it would delay independent users. Counting from the time
//!   of sending hides the stall (*coordinated omission*; G. Tene, "How NOT to Measure Latency", 2013).
//!
//! ```no_run
//! use std::sync::atomic::AtomicBool;
//!
//! use knee_load::{End, Load, Pace, Reply, Request, run};
//!
//! let request = Request::new(r"GET /\r\nHost: a\r\n\r\n", Reply::new("HTTP/1.1 200", End::Http)?)?;
//! let load = Load {
//!     target: "127.0.0.1:8080".parse()?,
//!     requests: vec![request],
//!     connections: 8,
//!     pace: Pace::Open { rate: 1000.0 },
//!     reconnect: false,
//!     warmup: 1.0,
//!     seconds: 5.0,
//!     patience: 1.0,
//!     cpus: vec![1],
//! };
//! let outcome = run(&load, &AtomicBool::new(false))?;
//! println!("p99 {} ns", outcome.latency.value_at_quantile(0.99));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod connection;
mod exchange;
mod load;
mod outcome;
mod reply;
mod request;
mod run_delay;
mod target;
mod text;
mod worker;

use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::Instant;

pub use self::exchange::exchange;
pub use self::load::{Load, LoadError, Pace};
pub use self::outcome::{Failures, Histogram, Outcome, quantiles};
pub use self::reply::{End, Reply};
pub use self::request::Request;
pub use self::target::{Target, TargetError};
pub use self::text::TextError;
use self::worker::Worker;

/// Generates `load`. Ends early once `stop` is true; the outcome then covers the time until then. Afterwards,
/// waits for the missing replies, at most for [`Load::patience`].
///
/// # Errors
/// The server cannot be reached or never sends a correct reply, or a worker cannot be started.
///
/// # Panics
/// `load` has no request, no connection or no CPU.
pub fn run(load: &Load, stop: &AtomicBool) -> Result<Outcome, LoadError> {
    assert!(!load.requests.is_empty() && load.connections > 0 && !load.cpus.is_empty());
    load.target.check().map_err(LoadError::Unreachable)?;
    let workers = load.cpus.len().min(load.connections);
    let begun = Instant::now();
    let outcomes = thread::scope(|scope| {
        let workers: Vec<_> = (0..workers)
            .map(|nr| {
                let worker = move || Worker::new(load, nr, workers, begun)?.run(stop);
                thread::Builder::new().name(format!("load {nr}")).spawn_scoped(scope, worker)
            })
            .collect();
        let join = |worker: std::io::Result<thread::ScopedJoinHandle<'_, _>>| {
            worker?.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        workers.into_iter().map(join).collect::<Vec<std::io::Result<Outcome>>>()
    });
    let mut all = Outcome::default();
    for outcome in outcomes {
        all.add(outcome?);
    }
    match &all.failures.first {
        Some(first) if !all.has_reply => Err(LoadError::Nothing(first.clone())),
        _ => Ok(all),
    }
}
