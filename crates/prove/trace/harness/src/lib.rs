//! Runs the calls of a test in each order, and compares their results with those that the test expects.
//!
//! The agent of a guest (crate knee-agent) and a program that binds a library (crate knee-bind) run tests in
//! the same way. For each order, they set up the state, make the calls one after the other between two marks,
//! and clean up. They differ only in how a call reaches the thread that makes it, which each of them
//! implements as a [`Session`].
//!
//! ```
//! use knee_harness::{Session, run};
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
#![forbid(unsafe_code)]

mod comparison;
mod names;
mod orders;
mod run;

pub use comparison::findings;
pub use names::{Names, name_number};
pub use orders::orders;
pub use run::{Session, run};
