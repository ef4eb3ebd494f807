//! What models of the protocols run on: `modelled.rs` of each with loom, `scheduled.rs` with shuttle.
//!
//! loom tries every order of a few accesses of two or three threads. shuttle tries some thousand schedules
//! of many accesses of up to six threads, in each of which every access sees the latest: it finds what is
//! wrong in the logic of more threads, and no missing order.

#[cfg(loom)]
mod latest;
#[cfg(test)]
mod lock;
#[cfg(loom)]
mod orders;
#[cfg(shuttle)]
mod schedules;

#[cfg(loom)]
pub use latest::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64};
#[cfg(test)]
pub(crate) use lock::RawLock;
#[cfg(loom)]
pub(crate) use orders::interrupt;
#[cfg(loom)]
pub use orders::{Model, check, check_interrupted, check_latest, check_symmetric, fence, thread};
#[cfg(shuttle)]
pub(crate) use schedules::{Model, check, thread};
