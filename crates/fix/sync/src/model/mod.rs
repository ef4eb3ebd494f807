//! The platforms of models: those in `modelled.rs` run on loom, those in `scheduled.rs` on shuttle.
//!
//! loom tries every order of a few accesses of two or three threads. shuttle tries some thousand schedules of
//! many accesses of up to six threads. In its schedules each access sees the latest store, so shuttle finds
//! errors of logic but no missing memory orders.

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
