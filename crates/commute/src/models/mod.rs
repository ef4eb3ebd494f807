//! Small interfaces, to learn from.

pub mod counter;
pub mod map;
pub mod queue;
pub mod register;
pub mod stack;
