//! Where the cycles go, and what grows with the cores.
//!
//! ```text
//! samples → distinct stacks → capture → view
//! ```
//!
//! * A [`capture`] is what one sampling came to: distinct stacks of functions, and how often each was
//!   seen. It is one file, and holds names: whoever reads it needs neither the machine nor its programs.
//! * [`Stacks`] collects one, whoever delivers the samples.
//! * [`import`] reads what other tools have sampled.
//! * [`view`] shows a capture: tables, call trees, flame graphs, files of other tools.
//! * [`mod@diff`] compares two captures by function, and says what exceeds the sampling error.
//! * [`mod@growth`] ranks functions by how much more each iteration costs with more tasks.
//! * [`sampling`] takes captures here.
//! * [`locks`] are waits for locks of the kernel: not sampled, each is there.
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
