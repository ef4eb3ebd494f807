//! Internals that knee-vm shares with knee-sync: atomics that a model checker can replace, planted mutants,
//! and padding. This module is not part of the public interface, and may change at any time.

#[cfg(any(loom, shuttle))]
pub use crate::model::{Model, RawLock, check, thread};
#[cfg(loom)]
pub use crate::model::{check_interrupted, check_latest, check_symmetric, interrupt};
#[cfg(mutants)]
pub use crate::mutant::Answer;
#[cfg(all(mutants, not(feature = "std")))]
pub use crate::mutant::choose_mutant;
pub use crate::padded::Padded;
pub use crate::primitive::{
    AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Guarded, PublishCheck, fence, fetch_max, pause,
    test_and_set, yield_in_model,
};
#[cfg(feature = "std")]
pub use crate::primitive::{Mutex, MutexGuard};
pub use crate::{is_mutant, order};
