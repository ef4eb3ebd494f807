//! Where the cycles go, and what grows with the cores.
//!
//! ```text
//! samples → distinct stacks → capture → view
//! ```
//!
//! * A [`capture`] is the result of one sampling: distinct stacks of functions, with their counts. It
//!   is one file that contains all names, so that it can be read on any machine.
//! * [`Stacks`] collects a capture from samples of any source.
//! * [`import`] reads the samples of other tools.
//! * [`view`] shows a capture: tables, call trees, flame graphs, files for other tools.
//! * [`mod@diff`] compares two captures by function, and marks what exceeds the sampling error.
//! * [`mod@growth`] ranks functions by how much their cost per iteration grows with the task count.
//! * [`sampling`] takes captures on this machine.
//! * [`locks`] records waits for kernel locks: all of them, not a sample.
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
