//! The domain of the process, in which each thread registers at its first use.

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

/// A registered thread: its handle, from a `Box`.
#[derive(Clone, Copy)]
struct Member(NonNull<Handle<'static, System>>);

impl Member {
    /// Calls `with` with the handle, which must not unregister the thread.
    #[inline]
    fn with<R>(self, with: impl FnOnce(&Handle<'static, System>) -> R) -> R {
        // SAFETY: `register` leaked the handle. Only `unregister` frees it, on this thread, after the
        // last use of a copy of `self`; `with` cannot keep the reference.
        with(unsafe { self.0.as_ref() })
    }

    /// Keeps the handle forever, in a static where leak detectors find it after the thread has exited.
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
        // If another destructor of the thread holds a guard, the record is never released.
        let is_outside = !self.with(Handle::is_inside);
        if is_outside {
            // SAFETY: `register` made it from a box, and no copy is used after this.
            unsafe { Box::from_raw(self.0.as_ptr()) }.release_without_reclaim();
        } else {
            self.keep();
        }
        is_outside
    }
}

/// The domain of the process. [`pin`] returns its guards.
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
/// If the thread has 4,095 guards.
///
/// # Threads and forks
/// A thread registers at its first call and unregisters when it exits. A thread that calls it again from
/// a destructor after that keeps a record until the process ends.
///
/// The child of a fork has only the guards of the thread that forked. Objects that other threads had
/// retired are freed, except those that a thread was retiring or freeing at that moment, which are
/// leaked. A [`Section`] or a guard of a [`Handle`] of [`shared`] that began before the fork ends in the
/// child only if it is dropped there.
#[inline]
pub fn pin() -> Guard<'static, System> {
    part().unwrap_or_else(stay).with(Handle::pin_for_long)
}

/// Waits until all sections of the process's domain that began before the call have ended. It frees nothing;
/// [`reclaim`] and [`barrier`] do.
///
/// # Panics
/// If this thread holds a [`Guard`], which would wait for itself. A [`Section`] is not detected: the call
/// then waits forever.
pub fn synchronize() {
    match registered() {
        Some(member) => member.with(Handle::synchronize),
        None => shared().synchronize(),
    }
}

/// A section of the process's domain that may be held across anything; see [`Section`].
pub fn section() -> Section<'static, System> {
    match part() {
        Some(member) => member.with(Handle::section),
        None => shared().section(),
    }
}

/// Waits until everything that was retired or deferred in the process's domain before the call has been
/// freed or called; see [`Domain::barrier`].
///
/// # Panics
/// If this thread holds a [`Guard`], as in [`synchronize`].
pub fn barrier() {
    let is_inside = registered().is_some_and(|member| member.with(Handle::is_inside));
    assert!(!is_inside, "barrier in a section waits for itself");
    shared().barrier();
}

/// Frees the objects of the calling thread that are ready, if a scan is due.
pub(crate) fn reclaim_if_due() {
    if let Some(member) = registered() {
        member.with(Handle::reclaim_if_due);
    }
}

/// Scans once and frees the objects that the calling thread has retired and that no section can hold any
/// more.
pub fn reclaim() {
    if let Some(member) = registered() {
        member.with(Handle::reclaim);
    }
}

/// Registers a thread that is exiting and has unregistered already. It keeps the record forever.
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
