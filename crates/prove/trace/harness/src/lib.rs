//! What is the same wherever the tests of a model run: the orders in which the calls of a test are made, and
//! the comparison of their results with the model. The agent of a guest (crate knee-agent) and a program that
//! binds a library (crate knee-bind) share this crate.
#![forbid(unsafe_code)]

mod comparison;
mod names;
mod orders;

pub use comparison::findings;
pub use names::{Names, name_number};
pub use orders::orders;
