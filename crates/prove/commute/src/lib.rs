//! When do the operations of an interface commute?
//!
//! A model of an interface is ordinary Rust: a [`State`], and [`Operation`]s that change it and return what
//! their caller sees. [`explore`] runs operations in every order from an unknown initial state. When the
//! model asks a question that the known facts do not answer, the execution takes one answer, and a later
//! execution takes the other. Each complete execution defines a [`Situation`]: the answers are its condition,
//! and a [`Verdict`] says whether the operations commute.
//!
//! ```
//! use knee_commute::{Limits, Verdict, explore, models::counter::counter};
//!
//! let counter = counter();
//! let inc = &counter.operations[0];
//! let alone = explore(&counter, &[inc, inc], &Limits::default())?;
//! assert_eq!(alone.situations.len(), 1);
//! assert_eq!(alone.situations[0].verdict, Verdict::Commute);
//! # Ok::<(), knee_commute::ModelError>(())
//! ```
#![forbid(unsafe_code)]

mod call;
mod certificate;
mod condition;
mod example;
mod execution;
mod exploration;
mod explore;
mod facts;
mod generate;
mod interface;
mod literal;
mod model;
pub mod models;
mod outcome;
mod parallel;
mod serve;
mod state;
mod terms;
mod test_outcome;
mod watch;

pub use call::{Call, Word};
pub use certificate::{Certificate, Claim};
pub use condition::{Case, Conditions, Reason, conditions};
pub use example::Example;
pub use execution::{Decision, Execution, Stop};
pub use exploration::{
    Difference, Exploration, Extent, InfeasiblePath, Limits, ModelError, Situation, Verdict,
    call_label,
};
pub use explore::explore;
pub use facts::{Facts, Flag, Int, Name, Question, WORD};
pub use generate::{Expect, Generated, TEST_SCHEMA, Test, TestCall, Wanted, generate};
pub use interface::{Interface, Operation, Setup};
pub use literal::Literal;
pub use model::{Model, explore_pairs, models, pairs, sets};
pub use outcome::{Outcome, Value};
pub use parallel::in_order;
pub use serve::{Description, Explored, Line, Request, SERVE_SCHEMA, serve};
pub use state::{Bag, Map, Natural, Part, Queue, Sort, Stack, State, Term, TotalMap, Truth, join};
pub use test_outcome::{Finding, TestOutcome};
pub use watch::{STUCK, situations_so_far, watch};

/// Compiles the examples of the guide.
#[cfg(doctest)]
#[doc = include_str!("../../../../docs/commuting.md")]
struct Guide;
