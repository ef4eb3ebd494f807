//! Calls that threads repeat on one object.

use std::hint::black_box;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Barrier;
use std::time::{Duration, Instant};

use knee_commute::TestCall;
use knee_marks::Mark;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::making::{in_window, prepare};
use crate::reply::{Reply, message};
use crate::{Action, Binding, Returned};

/// The prefix of an input line that contains a [`Repeat`] as JSON. A line without this prefix is a test.
pub const REPEAT_PREFIX: &str = "repeat ";

/// The minimum duration of a lap: a thousand times as long as it takes to read the clock. After a lap, the
/// thread checks whether it has run enough iterations.
const LAP: Duration = Duration::from_micros(50);

/// A request to repeat calls.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Repeat {
    /// The ID of the request. The answer has the same ID.
    pub id: String,
    /// The name of the interface.
    pub interface: String,
    /// The steps that set up the state, in order.
    pub setup: Vec<Value>,
    /// For each thread, its iterations, and for each iteration, its calls in order. There are at most
    /// [`SIDES`](knee_marks::SIDES) threads. After its last iteration, a thread begins with the first one
    /// again.
    pub threads: Vec<Vec<Vec<TestCall>>>,
    /// How to make the calls.
    pub how: How,
}

/// How to make calls.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum How {
    /// In each round, the threads run one iteration each, one thread after the other. The plugin counts each
    /// iteration as a test. The answer is [`Message::Done`](crate::Message::Done).
    Trace {
        /// The number of rounds.
        rounds: u32,
    },
    /// All threads run iterations at the same time. The answer is [`Message::Timed`](crate::Message::Timed).
    Time {
        /// The duration in seconds.
        seconds: f64,
        /// The maximum number of iterations of each thread, because a call may allocate memory that is never
        /// freed.
        most: u64,
    },
}

/// An object, and the calls that threads repeat on it.
pub(crate) struct Repeated<B> {
    pub(crate) binding: B,
    pub(crate) repeat: Repeat,
    /// Makes all threads start at the same time.
    pub(crate) start: Barrier,
}

impl<B: Binding> Repeated<B> {
    /// Runs one iteration of thread `nr` on the current thread, in a window of the plugin.
    pub(crate) fn iterate(&self, nr: usize, round: u32) -> Reply {
        let iterations = &self.repeat.threads[nr];
        let calls = &iterations[round as usize % iterations.len()];
        let side = nr as u8;
        let made = self
            .prepare(calls)
            .and_then(|mut actions| in_window(side, || window(side, &mut actions)));
        made.map_or_else(|failed| failed, |()| Reply::Returned(Returned::Nothing))
    }

    /// Runs and times iterations of thread `nr` on the current thread. If there is only one thread, the reply
    /// contains the median lap, because other work on the CPU disturbs only some laps.
    pub(crate) fn time(&self, nr: usize, seconds: f64, most: u64) -> Reply {
        let prepared: Result<Vec<_>, Reply> =
            self.repeat.threads[nr].iter().map(|calls| self.prepare(calls)).collect();
        // The other threads wait for this one, even if it cannot run its iterations.
        self.start.wait();
        let mut prepared = match prepared {
            Ok(prepared) => prepared,
            Err(reply) => return reply,
        };
        match catch_unwind(AssertUnwindSafe(|| self.laps(&mut prepared, seconds, most))) {
            Ok(reply) => reply,
            Err(panic) => Reply::Panicked(message(&*panic)),
        }
    }

    fn laps(&self, prepared: &mut [Vec<Action<'_>>], seconds: f64, most: u64) -> Reply {
        let limit = Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX);
        let (begin, mut done, mut next) = (Instant::now(), 0, 0);
        let mut in_lap: u64 = 1;
        let mut laps: Vec<(u64, Duration)> = Vec::new();
        while laps.is_empty() || (done < most && begin.elapsed() < limit) {
            let lap = Instant::now();
            for _ in 0..in_lap {
                for action in &mut prepared[next] {
                    black_box(action());
                }
                next = if next + 1 == prepared.len() { 0 } else { next + 1 };
            }
            let time = lap.elapsed();
            done += in_lap;
            // The first laps only serve to find the number of iterations in a lap.
            if 2 * time < LAP && in_lap < most {
                in_lap *= 2;
                laps.clear();
            } else {
                laps.push((in_lap, time));
            }
        }
        // If threads wait for each other, a few laps are long, and the median would ignore these laps.
        if self.repeat.threads.len() > 1 {
            laps = vec![(done, begin.elapsed())];
        }
        laps.sort_unstable_by_key(|(iterations, time)| {
            time.as_nanos() * 1000 / u128::from(*iterations)
        });
        let (iterations, time) = laps[laps.len() / 2];
        Reply::Timed { iterations, time: time.max(Duration::from_nanos(1)) }
    }

    fn prepare(&self, calls: &[TestCall]) -> Result<Vec<Action<'_>>, Reply> {
        calls.iter().map(|call| prepare(&self.binding, call)).collect()
    }
}

/// Opens the side's window, makes the calls, and closes the window. This function is not inlined, so that each
/// mark occurs only once in the code.
#[inline(never)]
fn window(side: u8, actions: &mut [Action<'_>]) {
    Mark::Open(side).emit();
    for action in actions {
        black_box(action());
    }
    Mark::Close(side).emit();
}
