//! Measuring how the services of an operating system scale with cores.
//!
//! The pipeline is visible: a value flows
//!
//! ```text
//! testcase → sample → round → point → run → curve
//! ```
//!
//! * A [`testcase`] is an endless loop of one operation; [`testcases`] holds the built-in ones,
//!   [`select`] finds them by name, [`design`] has parameters of some, [`needs`] says whether the machine offers what they want.
//! * A [`task`] is one running copy of it; [`call`] says which call failed.
//! * A [`runner`] is one fresh process that runs one round of one point: it forks the tasks,
//!   samples their counters ([`area`]) and ends them. A [`job`] goes in, events come out.
//! * [`launch`] is the other side: it starts runners and makes sure that they end.
//! * A [`held`] command waits, before it is one, until it is let.
//! * A [`sweep`] runs rounds of all points of a [`plan`], interleaved, into a [`record`].
//! * [`summary`] makes curves of a record; [`noise`] knows what chance alone shows.
//! * [`results`] are what can be compared, whoever measured them.
//! * [`machine`] knows which CPUs there are and in which order tasks take them.
//!
//! This crate prints nothing, and with `launch` it is the only one that starts processes.
//!
//! ```
//! use knee_measure::select::select;
//!
//! let chosen = select(&["getppid1", "read1@same-file"])?;
//! assert_eq!(chosen[1].label(), "read1@same-file");
//! # Ok::<(), knee_measure::select::SelectError>(())
//! ```

pub mod area;
pub mod call;
mod command;
pub mod design;
pub mod job;
pub mod launch;
pub mod needs;
pub mod noise;
pub mod plan;
pub mod record;
mod reference;
pub mod results;
pub mod runner;
pub mod select;
pub mod summary;
pub mod sweep;
pub mod task;
pub mod testcase;
pub mod testcases;
