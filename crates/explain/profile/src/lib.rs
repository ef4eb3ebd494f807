//! Finds where the cycles go, and which costs grow with the core count.
//!
//! ```text
//! samples → distinct stacks → capture → view
//! ```
//!
//! * A [`capture`] is the result of one sampling: distinct stacks of functions, with their counts. Its
//!   file contains all names, so that any machine can read it.
//! * [`Stacks`] collects the samples of any source into a capture.
//! * [`import`] reads the samples of other tools.
//! * [`view`] renders a capture as a table, call tree, flame graph or file for another tool.
//! * [`mod@diff`] compares two captures by function, and marks differences beyond the sampling error.
//! * [`mod@growth`] ranks functions by how much their cost per iteration grows with the task count.
//! * [`sampling`] takes captures on this machine.
//! * [`locks`] records every wait for a kernel lock, not a sample of them.
//!
//! This crate prints nothing and starts no processes.
//!
//! ```
//! use knee_profile::capture::{Function, Kind, Stacks};
//!
//! let mut stacks = Stacks::default();
//! let (main, work) = (Function::new("main", Kind::User), Function::new("work", Kind::User));
//! stacks.add("program", [&main, &work], 3, 3_000_000);
//! stacks.add("program", [&main], 1, 1_000_000);
//! assert_eq!(stacks.seen(), 4);
//! ```

pub mod capture;
pub mod diff;
pub mod growth;
pub mod import;
mod kernel_symbols;
pub mod locks;
mod records;
pub mod sampling;
mod symbols;
pub mod view;

pub use capture::{Capture, Stacks};
