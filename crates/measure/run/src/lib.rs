//! Measuring how the services of an operating system scale with cores.
//!
//! A value flows through this pipeline:
//!
//! ```text
//! testcase → sample → round → point → run → curve
//! ```
//!
//! * A [`testcase`] is an endless loop of one operation. Its [parameters](parameter) are data. A
//!   [`Catalogue`] contains the testcases. [`needs`] checks whether the machine provides what a
//!   testcase needs.
//! * A [`task`] is one running copy of a testcase. Errors of its system calls are in [`call`].
//! * A [`runner`] is a fresh process that runs one round of one point: it forks the tasks, samples
//!   their counters ([`area`]) and kills them. It receives a [`job`] and sends events.
//! * [`launch`] is the other side: it starts runners and makes sure that they end. [`stopped`] says
//!   why a round ended too early.
//! * A [`server`] is measured under load; a TOML file describes it. An [`observer`] follows a round of a server or of
//!   a command.
//! * A [`sweep`] runs the interleaved rounds of all points of a [`plan`], and writes a [`record`].
//! * A record has [results](record::Record::results) and curves. [`noise`] measures how much results
//!   differ by chance on a machine.
//!
//! This crate contains no testcases; those of knee are in `knee-testcases`. It prints nothing, with
//! one exception: a runner that was started by hand, or whose helper failed, prints the reason on
//! standard error.
//!
//! ```
//! use knee_run::parameter::Choice;
//! use knee_run::{Catalogue, Family, Testcase};
//!
//! const OWN: Choice = Choice::new("parent", "own", "asks for its own parent");
//! const GETPPID: Testcase = Testcase {
//!     name: "getppid1",
//!     parameters: &[&[OWN]],
//!     ..Testcase::new(Family::Process, |task| {
//!         task.repeat(|| {
//!             rustix::process::getppid();
//!             Ok(())
//!         })
//!     })
//! };
//! const CATALOGUE: Catalogue = Catalogue(&[&[&[GETPPID]]]);
//!
//! let chosen = CATALOGUE.select(&["getpp*"])?;
//! assert_eq!(chosen[0].id().to_string(), "getppid1");
//! # Ok::<(), knee_run::catalogue::SelectError>(())
//! ```

mod account;
pub mod area;
pub mod call;
pub mod catalogue;
mod command;
mod description;
pub mod job;
pub mod launch;
pub mod needs;
pub mod noise;
pub mod observer;
pub mod parameter;
mod placeholders;
pub mod plan;
pub mod quiet;
pub mod record;
pub mod runner;
pub mod server;
pub mod stopped;
pub mod sweep;
pub mod task;
pub mod testcase;
mod timer;

#[cfg(test)]
mod fixture;

pub use catalogue::Catalogue;

// What a file of testcases uses.
pub use call::{During, TaskError, Whole, check};
pub use knee_results::{Family, Mode};
pub use task::{Count, NEXT_CPU, Outcome, SAME_CPU, Task};
pub use testcase::{Need, Setup, Testcase, Unit};
