//! What `knee commute` prints.

pub(crate) mod check;
pub(crate) mod conditions;
pub(crate) mod cost;
pub(crate) mod diff;
pub(crate) mod explain;
pub(crate) mod layout;
mod list;
pub(crate) mod matrix;
pub(crate) mod program;
pub(crate) mod shared;
mod triangle;
