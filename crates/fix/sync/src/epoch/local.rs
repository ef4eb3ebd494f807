//! The domain of the process. A thread registers with this domain when it first uses the domain.

use std::ptr::NonNull;
use std::sync::{LazyLock, OnceLock};

use super::domain::Domain;
use super::handle::{Guard, Handle};
use super::section::Section;
#[cfg(all(unix, not(any(loom, miri))))]
use crate::fork::InChild;
use crate::per_thread::{Part, per_thread};
use crate::primitive::AtomicPtr;
use crate::registry::Registry;
use crate::system::System;

static SHARED: OnceLock<Domain<System>> = OnceLock::new();

per_thread!(Member);

/// A pointer to a registered thread's handle, which is in a leaked `Box`.
#[derive(Clone, Copy)]
struct Member(NonNull<Handle<'static, System>>);

impl Member {
    /// Passes the handle to `with`, which must not unregister the thread.
    #[inline]
    fn with<R>(self, with: impl FnOnce(&Handle<'static, System>) -> R) -> R {
        // SAFETY: `register` leaked the handle, and only `unregister` frees it. This thread calls
        // `unregister` after its last use of any copy of `self`. `with` cannot keep the reference.
        with(unsafe { self.0.as_ref() })
    }

    /// Keeps the handle forever. A static variable points to the handle, so leak detectors do not report the
    /// handle after the thread has exited.
    fn keep(self) {
        static KEPT: LazyLock<Registry<AtomicPtr<Handle<'static, System>>>> =
            LazyLock::new(Registry::new);
        KEPT.take_or_make(|| AtomicPtr::new(self.0.as_ptr()));
    }
}

impl Part for Member {
    fn register() -> Member {
        Member(NonNull::from(Box::leak(Box::new(shared().register_thread()))))
    }

    fn before_exit(self) {
        self.with(Handle::reclaim);
    }

    fn unregister(self) -> bool {
        // A guard may still be in a leaked value, or in a thread-local that is destroyed later. In that case,
        // the record is never released.
        let is_outside = !self.with(Handle::is_inside);
        if is_outside {
            // SAFETY: `register` made the pointer from a box, and no copy of it is used after this.
            unsafe { Box::from_raw(self.0.as_ptr()) }.release_without_reclaim();
        } else {
            self.keep();
        }
        is_outside
    }
}

/// The domain of the process. [`pin`] returns guards of this domain.
pub fn shared() -> &'static Domain<System> {
    SHARED.get_or_init(|| {
        #[cfg(all(unix, not(any(loom, miri))))]
        {
            static IN_CHILD: InChild = InChild::new(forked);
            IN_CHILD.register();
        }
        Domain::new(System::detect())
    })
}

/// Enters a section of the process's domain.
///
/// # Panics
/// If the thread already has 4,095 guards.
///
/// # Threads and forks
/// A thread registers at its first call of `pin` and unregisters when it exits. If the destructor of a
/// thread-local variable calls `pin` after the thread has unregistered, the thread's record stays in use
/// until the process ends.
///
/// The child of a fork has only the guards of the thread that forked. The child frees the objects that other
/// threads had retired. The child leaks the objects that another thread was retiring or freeing at the moment
/// of the fork. A [`Section`] that began before the fork lasts in the child until the child drops it, and so
/// does a guard of a [`Handle`] of this domain.
#[inline]
pub fn pin() -> Guard<'static, System> {
    part().unwrap_or_else(stay).with(Handle::pin_for_long)
}

/// Waits until all sections of the process's domain that began before the call have ended. This function
/// frees nothing. To free retired objects, call [`reclaim`] or [`barrier`].
///
/// # Panics
/// If this thread holds a [`Guard`], because the call would wait for that guard. This function does not
/// detect a [`Section`]: if this thread holds a section, the call waits forever.
pub fn synchronize() {
    match registered() {
        Some(member) => member.with(Handle::synchronize),
        None => shared().synchronize(),
    }
}

/// A section of the process's domain that may be held while a thread blocks; see [`Section`].
pub fn section() -> Section<'static, System> {
    match part() {
        Some(member) => member.with(Handle::section),
        None => shared().section(),
    }
}

/// Waits until all objects that have been retired to the process's domain so far are freed, and all calls
/// that have been deferred in it so far have run; see [`Domain::barrier`].
///
/// # Panics
/// In the cases that [`Domain::barrier`] lists, and if this thread holds a [`Guard`].
pub fn barrier() {
    let is_inside = registered().is_some_and(|member| member.with(Handle::is_inside));
    assert!(!is_inside, "barrier would wait for the caller's own section");
    shared().barrier();
}

/// If a scan is due, scans once, and then frees the calling thread's retired objects that are ready.
pub(crate) fn reclaim_if_due() {
    if let Some(member) = registered() {
        member.with(Handle::reclaim_if_due);
    }
}

/// Scans once, and then frees the calling thread's retired objects that no section can hold any more.
pub fn reclaim() {
    if let Some(member) = registered() {
        member.with(Handle::reclaim);
    }
}

/// Registers an exiting thread again after it has unregistered. The new record is never released.
#[cold]
fn stay() -> Member {
    let member = Member::register();
    member.keep();
    PART.set(Some(member));
    member
}

/// Repairs the domain in the child of a fork, where the other threads are missing.
#[cfg(all(unix, not(any(loom, miri))))]
extern "C" fn forked() {
    if let Some(domain) = SHARED.get() {
        domain.forked(registered().map(|member| member.with(Handle::node)));
    }
}
