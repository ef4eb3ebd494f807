//! The lock that models use.

use std::cell::Cell;
use std::mem;
use std::sync::OnceLock;

#[cfg(loom)]
use loom::sync::{Mutex, MutexGuard};
#[cfg(shuttle)]
use shuttle::sync::{Mutex, MutexGuard};

use lock_api::{GuardNoSend, RawMutex};

/// The mutex of loom or shuttle, as a raw lock for lock_api.
pub struct RawLock {
    /// The guard of the thread that holds the lock. This field is dropped before `mutex`.
    guard: Cell<Option<MutexGuard<'static, ()>>>,
    /// Created at the first use: `INIT` must be a constant, and loom's mutexes have no `const`
    /// constructor.
    mutex: OnceLock<Mutex<()>>,
}

// SAFETY: one OS thread runs all threads of a model.
unsafe impl Sync for RawLock {}
// SAFETY: as for `Sync`.
unsafe impl Send for RawLock {}

impl RawLock {
    fn mutex(&self) -> &Mutex<()> {
        self.mutex.get_or_init(Mutex::default)
    }

    fn keep(&self, guard: MutexGuard<'_, ()>) {
        // SAFETY: `guard` is declared before `mutex`, so the guard is dropped first. The lock does not
        // move while it is held.
        let guard = unsafe { mem::transmute::<MutexGuard<'_, ()>, MutexGuard<'static, ()>>(guard) };
        self.guard.set(Some(guard));
    }
}

// SAFETY: the model's mutex excludes other threads.
unsafe impl RawMutex for RawLock {
    #[allow(clippy::declare_interior_mutable_const)] // The trait requires it.
    const INIT: RawLock = RawLock { guard: Cell::new(None), mutex: OnceLock::new() };

    type GuardMarker = GuardNoSend;

    fn lock(&self) {
        self.keep(self.mutex().lock().expect("a panic ends the model"));
    }

    fn try_lock(&self) -> bool {
        let taken = self.mutex().try_lock().map(|guard| self.keep(guard));
        taken.is_ok()
    }

    unsafe fn unlock(&self) {
        drop(self.guard.take());
    }
}
