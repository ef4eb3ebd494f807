//! A lock of a model.

use std::cell::Cell;
use std::mem;
use std::sync::OnceLock;

#[cfg(loom)]
use loom::sync::{Mutex, MutexGuard};
#[cfg(shuttle)]
use shuttle::sync::{Mutex, MutexGuard};

use lock_api::{GuardNoSend, RawMutex};

/// The mutex of the model as lock_api knows mutexes.
pub(crate) struct RawLock {
    /// What the one who has the lock has of the mutex, so dropped before it.
    guard: Cell<Option<MutexGuard<'static, ()>>>,
    /// Locks are constants, which those of loom cannot be.
    mutex: OnceLock<Mutex<()>>,
}

// SAFETY: all threads of a model are one.
unsafe impl Sync for RawLock {}
// SAFETY: as above.
unsafe impl Send for RawLock {}

impl RawLock {
    fn mutex(&self) -> &Mutex<()> {
        self.mutex.get_or_init(Mutex::default)
    }

    fn keep(&self, guard: MutexGuard<'_, ()>) {
        // SAFETY: it is dropped before the mutex, see the order of the fields, which does not move while
        // the lock is taken.
        let guard = unsafe { mem::transmute::<MutexGuard<'_, ()>, MutexGuard<'static, ()>>(guard) };
        self.guard.set(Some(guard));
    }
}

// SAFETY: the mutex decides.
unsafe impl RawMutex for RawLock {
    #[allow(clippy::declare_interior_mutable_const)] // The trait wants it.
    const INIT: RawLock = RawLock { guard: Cell::new(None), mutex: OnceLock::new() };

    type GuardMarker = GuardNoSend;

    fn lock(&self) {
        self.keep(self.mutex().lock().expect("who panics ends the model"));
    }

    fn try_lock(&self) -> bool {
        let taken = self.mutex().try_lock().map(|guard| self.keep(guard));
        taken.is_ok()
    }

    unsafe fn unlock(&self) {
        drop(self.guard.take());
    }
}
