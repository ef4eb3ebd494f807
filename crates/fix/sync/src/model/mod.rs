//! The platforms on which models run: loom for the models in `modelled.rs`, shuttle for those in
//! `scheduled.rs`.
//!
//! loom tries every order in which two or three threads can make a few accesses. shuttle tries a few thousand
//! schedules in which up to six threads make many accesses. In these schedules each access sees the latest
//! store, so shuttle finds errors in the logic, but not missing memory orderings.

#[cfg(loom)]
mod latest;
mod lock;
#[cfg(loom)]
mod orders;
#[cfg(shuttle)]
mod schedules;

#[cfg(loom)]
pub use latest::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64};
pub use lock::RawLock;
#[cfg(loom)]
pub use orders::{
    Model, check, check_interrupted, check_latest, check_symmetric, fence, interrupt, thread,
};
#[cfg(shuttle)]
pub use schedules::{Model, check, thread};
