//! The models that come with knee: small interfaces to learn from, and POSIX.

pub mod counter;
mod descriptors;
pub mod directories;
pub mod durability;
pub mod independent;
pub mod map;
pub mod posix;
pub mod processes;
pub mod queue;
pub mod register;
pub mod signals;
pub mod sockets;
pub mod stack;
