//! The threads that share a refcache.

use lock_api::RawMutex;

use super::cache::{Local, Refcache};
use crate::platform::Platform;

/// The holders of references: the threads of a process, or the CPUs of a kernel.
///
/// # Safety
/// * [`refcache`](Threads::refcache) always returns the same reference, and
///   [`with_local`](Threads::with_local) passes a [`Local`] of that refcache.
/// * Nothing else uses the passed `Local` during the call of `with_local`. If the `Local` belongs to a CPU,
///   the caller must not be preempted meanwhile, and interrupt handlers have a `Local` of their own.
pub unsafe trait Threads: 'static {
    /// The platform of the threads.
    type Platform: Platform + 'static;

    /// The type of each object's lock, which is held only for a few loads and stores.
    type Lock: RawMutex + Send + Sync + 'static;

    /// The refcache of all these threads.
    fn refcache() -> &'static Refcache<Self::Platform, Self::Lock>;

    /// Passes the caller's registration to `with`.
    fn with_local<R>(with: impl FnOnce(&Local<'static, Self::Platform, Self::Lock>) -> R) -> R;
}
