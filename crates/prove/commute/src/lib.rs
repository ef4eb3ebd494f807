//! When do the operations of an interface commute?
//!
//! A model is ordinary Rust: a [`State`], and [`Operation`]s that change it and say what their
//! caller sees. [`explore`] runs them in every order from an initial state that nobody knows;
//! whenever the model asks something that is not known yet, the execution takes one answer, and
//! later another one the other. What was answered is the condition of a [`Situation`].
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
pub use model::{Model, explore_pairs, models, pairs};
pub use outcome::{Outcome, Value};
pub use parallel::in_order;
pub use serve::{Description, Explored, Line, Request, SERVE_SCHEMA, STUCK, serve, watch};
pub use state::{Bag, Map, Natural, Part, Queue, Sort, Stack, State, Term, TotalMap, Truth, join};
pub use test_outcome::{Finding, TestOutcome};
pub use watch::{Snapshot, on_this_thread, stuck};
