//! The runs of a test.
//!
//! The agent of a guest (crate knee-agent), knee's own kernel (crate knee-kernel), and a program that binds a
//! library (crate knee-bind) run tests in the same way. For each order, they set up the state, make the calls
//! one after the other between two marks, and clean up. They differ only in how a call reaches the thread
//! that makes it. Each of them implements this part as a [`Session`].
//!
//! ```
//! use knee_plan::{Session, run};
//!
//! /// A counter that both calls increment and read.
//! #[derive(Default)]
//! struct Counters(Vec<Vec<i64>>);
//!
//! impl Session for Counters {
//!     type State = std::cell::Cell<i64>;
//!     type Returned = i64;
//!     type Error = std::convert::Infallible;
//!
//!     fn set_up(&mut self) -> Result<Self::State, Self::Error> {
//!         Ok(0.into())
//!     }
//!
//!     fn call(&mut self, counter: &Self::State, nr: usize, _traced: bool) -> i64 {
//!         counter.set(counter.get() + 10 * (nr as i64 + 1));
//!         counter.get()
//!     }
//!
//!     fn finish(
//!         &mut self,
//!         _order: usize,
//!         _counter: Self::State,
//!         returned: Vec<i64>,
//!     ) -> Result<(), Self::Error> {
//!         self.0.push(returned);
//!         Ok(())
//!     }
//! }
//!
//! let mut counters = Counters::default();
//! // Each order once untraced, and twice traced.
//! let (ran, traced) = run(&mut counters, [&[0, 1][..], &[1, 0]], 1, |traced| traced < 2);
//! assert_eq!((ran, traced), (Ok(()), 4));
//! assert_eq!(counters.0[0], [10, 30]);
//! assert_eq!(counters.0[5], [20, 30]);
//! ```

use alloc::vec::Vec;

use knee_marks::Mark;

use crate::channel::{ChannelError, Report, Shared, Word};
use crate::plan::{Done, Plan};

/// The first `COLD_TESTS` tests run while the guest's caches and pools are still cold. So each order of these
/// tests first runs `COLD_RUNS` times untraced.
const COLD_TESTS: usize = 16;
const COLD_RUNS: u32 = 16;
/// The maximum number of traced runs of each order. The channel has room for the results of these runs.
pub const MOST_TRACED: u32 = 6;

/// The number of untraced runs of each order of plan `nr`.
pub(crate) fn untraced(nr: usize) -> u32 {
    if nr < COLD_TESTS { COLD_RUNS } else { 0 }
}

/// How the calls of a test reach the threads that make them.
pub trait Session {
    /// The initial state that the calls of a run receive.
    type State;
    /// The result of a call.
    type Returned;
    /// The reason why no further run is made.
    type Error;

    /// Reports that a traced run begins or ends. The plugin sees marks only in user mode.
    fn emit(&mut self, mark: Mark) {
        mark.emit();
    }

    /// Sets up the initial state of the test.
    ///
    /// # Errors
    /// Fails if the state cannot be set up. The implementation must then remove what it has created.
    fn set_up(&mut self) -> Result<Self::State, Self::Error>;

    /// Makes call `nr` on its thread, and waits for the result. `traced` is true if the plugin
    /// traces the run.
    fn call(&mut self, state: &Self::State, nr: usize, traced: bool) -> Self::Returned;

    /// Ends a run, and removes what the run has created. `order` is the index of the order in which this run
    /// made its calls, and `returned` lists the results in that order.
    ///
    /// # Errors
    /// Fails if the results show that the test cannot be run.
    fn finish(
        &mut self,
        order: usize,
        state: Self::State,
        returned: Vec<Self::Returned>,
    ) -> Result<(), Self::Error>;
}

/// Runs all plans in the channel, and reports their results. The closure `run` runs one plan. Its arguments
/// are the plan, and the arguments `untraced` and `again` of the function [`run()`]. The closure returns the
/// result of the plan and the number of traced runs.
///
/// # Errors
/// Fails if the channel has no room for a report. In that case, runs no further plan.
pub fn run_plans(
    shared: &mut Shared,
    mut run: impl FnMut(&Plan, u32, &mut dyn FnMut(u32) -> bool) -> (Done, u64),
) -> Result<(), ChannelError> {
    for (nr, plan) in shared.plans().enumerate() {
        shared.set(Word::Begun, nr + 1);
        let (done, seen) = run(&plan, untraced(nr), &mut |traced| {
            let wanted = traced == 0 || shared.get(Word::Again) != 0;
            // The host sets the word while the guest is paused after a run.
            shared.set(Word::Again, 0);
            wanted
        });
        shared.report(&Report { plan: nr, done, seen })?;
    }
    Ok(())
}

/// Runs each order: first without tracing, `untraced` times, to fill caches; then with tracing, for as long
/// as `again` returns true. The argument of `again` is the number of traced runs of this order so far.
///
/// Stops at the first error. Returns that error, if any, and the number of traced runs that reached
/// [`Mark::End`]. The plugin writes one result for each of these runs.
pub fn run<'o, S: Session>(
    session: &mut S,
    orders: impl IntoIterator<Item = &'o [usize]>,
    untraced: u32,
    mut again: impl FnMut(u32) -> bool,
) -> (Result<(), S::Error>, u64) {
    let mut results = 0;
    for (order, calls) in orders.into_iter().enumerate() {
        for _ in 0..untraced {
            if let Err(error) = run_once(session, order, calls, None) {
                return (Err(error), results);
            }
        }
        let mut traced = 0;
        while again(traced) {
            traced += 1;
            if let Err(error) = run_once(session, order, calls, Some(&mut results)) {
                return (Err(error), results);
            }
        }
    }
    (Ok(()), results)
}

/// Makes one run. If there is a counter `results`, the plugin traces the run, and the counter is incremented
/// after [`Mark::End`].
fn run_once<S: Session>(
    session: &mut S,
    order: usize,
    calls: &[usize],
    results: Option<&mut u64>,
) -> Result<(), S::Error> {
    let state = session.set_up()?;
    let traced = results.is_some();
    if traced {
        session.emit(Mark::Begin);
    }
    let returned = calls.iter().map(|&nr| session.call(&state, nr, traced)).collect();
    if let Some(results) = results {
        session.emit(Mark::End);
        *results += 1;
    }
    session.finish(order, state, returned)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Records its runs. `set_up` or `finish` fails in the run with the given number; the first run
    /// is number 1.
    #[derive(Default)]
    struct Recorder {
        runs: Vec<(usize, Vec<(usize, bool)>)>,
        set_ups: usize,
        fails_to_set_up: Option<usize>,
        fails_to_finish: Option<usize>,
    }

    impl Session for Recorder {
        type State = ();
        type Returned = (usize, bool);
        type Error = &'static str;

        fn set_up(&mut self) -> Result<(), Self::Error> {
            self.set_ups += 1;
            match self.fails_to_set_up == Some(self.set_ups) {
                true => Err("set-up"),
                false => Ok(()),
            }
        }

        fn call(&mut self, (): &(), nr: usize, traced: bool) -> Self::Returned {
            (nr, traced)
        }

        fn finish(
            &mut self,
            order: usize,
            (): (),
            returned: Vec<Self::Returned>,
        ) -> Result<(), Self::Error> {
            self.runs.push((order, returned));
            match self.fails_to_finish == Some(self.runs.len()) {
                true => Err("finish"),
                false => Ok(()),
            }
        }
    }

    const ORDERS: [&[usize]; 2] = [&[0, 1], &[1, 0]];

    #[test]
    fn each_order_runs_untraced_first_and_then_traced() {
        let mut recorder = Recorder::default();
        let (result, traced) = run(&mut recorder, ORDERS, 1, |traced| traced < 2);
        assert_eq!((result, traced), (Ok(()), 4));
        let order = |nr: usize, traced| (nr, ORDERS[nr].iter().map(|&nr| (nr, traced)).collect());
        let expected = [0, 1].map(|nr| [order(nr, false), order(nr, true), order(nr, true)]);
        assert_eq!(recorder.runs, expected.concat());
    }

    #[test]
    fn an_error_stops_the_runs_and_each_marked_end_is_counted() {
        let mut recorder = Recorder { fails_to_set_up: Some(3), ..Recorder::default() };
        let ran = run(&mut recorder, ORDERS, 1, |traced| traced < 2);
        assert_eq!((ran, recorder.runs.len()), ((Err("set-up"), 1), 2));
        let mut recorder = Recorder { fails_to_finish: Some(2), ..Recorder::default() };
        let ran = run(&mut recorder, ORDERS, 1, |traced| traced < 2);
        assert_eq!((ran, recorder.runs.len()), ((Err("finish"), 1), 2));
    }
}
