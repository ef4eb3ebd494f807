//! Who refers.

use lock_api::RawMutex;

use super::cache::{Local, Refcache};
use crate::platform::Platform;

/// Those who take and drop references: the threads of a process, or the CPUs of a kernel.
///
/// # Safety
/// [`with_local`](Threads::with_local) calls its argument with a part of [`refcache`](Threads::refcache)
/// that the caller has [registered](Refcache::register) and not unregistered, and that nobody else uses at the time:
/// on a CPU, what calls it is not preempted, and interrupt handlers have a part of their own.
/// `refcache` is always the same.
pub unsafe trait Threads: 'static {
    /// What they run on.
    type Platform: Platform + 'static;

    /// The lock of each object, which is held for some loads and stores.
    type Lock: RawMutex + Send + Sync + 'static;

    /// Their caches.
    fn refcache() -> &'static Refcache<Self::Platform, Self::Lock>;

    /// Calls `with` with the caller's part, which it uses within the call.
    fn with_local<R>(with: impl FnOnce(Local<'static, Self::Platform, Self::Lock>) -> R) -> R;
}
