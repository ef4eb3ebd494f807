//! Reclamation, counts and locks whose read side costs nothing to share.

#![cfg_attr(not(feature = "std"), no_std)]

pub mod epoch;

mod biased;
mod padded;
mod platform;
mod primitive;
#[cfg(feature = "std")]
mod rcu;
mod registry;
#[cfg(feature = "std")]
mod system;

pub use platform::Platform;
#[cfg(feature = "std")]
pub use rcu::Rcu;
pub use registry::Node;
#[cfg(feature = "std")]
pub use system::System;
