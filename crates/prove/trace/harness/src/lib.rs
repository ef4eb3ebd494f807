//! The common code of all programs that run the tests of a model: it computes the orders in which the calls
//! of a test are made, and compares their results with the model. The agent of a guest (crate knee-agent) and
//! a program that binds a library (crate knee-bind) share this crate.
#![forbid(unsafe_code)]

mod comparison;
mod names;
mod orders;

pub use comparison::findings;
pub use names::{Names, name_number};
pub use orders::orders;
