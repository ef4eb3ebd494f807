//! What models of the protocols run on: `modelled.rs` of each with loom, `scheduled.rs` with shuttle.
//!
//! loom tries every order of a few accesses of two or three threads. shuttle tries some thousand schedules
//! of many accesses of up to six threads, in each of which every access sees the latest: it finds what is
//! wrong in the logic of more threads, and no missing order.

#[cfg(loom)]
mod latest;
#[cfg(loom)]
mod orders;
#[cfg(shuttle)]
mod schedules;

#[cfg(loom)]
pub(crate) use latest::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64};
#[cfg(loom)]
pub(crate) use orders::{
    Model, check, check_interrupted, check_latest, check_symmetric, fence, interrupt, thread,
};
#[cfg(shuttle)]
pub(crate) use schedules::{Model, check, thread};

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
