//! Where the cycles go, and what grows with the cores.
//!
//! ```text
//! samples → distinct stacks → capture → view
//! ```
//!
//! * A [`capture`] is what one sampling came to: distinct stacks of functions, and how often each was
//!   seen. It is one file, and holds names: whoever reads it needs neither the machine nor its programs.
//! * [`Stacks`] collects one, whoever delivers the samples.
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

pub use capture::{Capture, Stacks};
