//! What a test of a model means to whoever runs it: the orders of its calls, and whether the results of the
//! calls agree with the model. The agent of a guest (crate knee-agent) and a program that binds a library (crate
//! knee-bind) share this crate.
#![forbid(unsafe_code)]

mod comparison;
mod names;
mod orders;

pub use comparison::findings;
pub use names::{Names, name_number};
pub use orders::orders;
