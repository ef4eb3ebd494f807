//! Reclamation, counts and locks whose read side costs nothing to share.

#![cfg_attr(not(feature = "std"), no_std)]

mod biased;
#[cfg(all(target_os = "linux", feature = "std", not(loom)))]
mod futex;
#[cfg(feature = "std")]
pub mod invalidation;
#[cfg(all(target_os = "linux", feature = "std", not(loom)))]
pub mod lock;
mod padded;
mod platform;
mod primitive;
mod registry;
#[cfg(feature = "std")]
pub mod rm;
#[cfg(feature = "std")]
mod system;

pub use platform::Platform;
pub use registry::Node;
#[cfg(feature = "std")]
pub use system::System;
