//! Captures that other tools have taken, read as text.
//!
//! | file | what it is |
//! | --- | --- |
//! | [`mod@script`] | what `perf script` prints |
//! | [`mod@folded`] | folded stacks: `program;outer;inner 12` |
//!
//! What cannot be read is left out and counted in [`Losses::unreadable`](crate::capture::Losses):
//! a text that ends in the middle still shows where the time went.

pub mod folded;
mod rust_name;
pub mod script;

pub use folded::folded;
pub use script::script;
