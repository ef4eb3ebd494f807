//! The domain that the threads of a process have in common.

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

/// A thread's handle, made of a `Box`.
#[derive(Clone, Copy)]
struct Member(NonNull<Handle<'static, System>>);

impl Member {
    /// Calls `with` with the handle, which must not unregister the thread.
    #[inline]
    fn with<R>(self, with: impl FnOnce(&Handle<'static, System>) -> R) -> R {
        // SAFETY: `join` leaked the handle. Only `leave` frees it, on this thread, after the last use of
        // a copy of `self`; `with` cannot keep the reference.
        with(unsafe { self.0.as_ref() })
    }

    /// Keeps the handle for ever, where a search for leaks finds it when the thread has exited.
    fn keep(self) {
        static KEPT: LazyLock<Registry<AtomicPtr<Handle<'static, System>>>> =
            LazyLock::new(Registry::new);
        KEPT.take_or_make(|| AtomicPtr::new(self.0.as_ptr()));
    }
}

impl Part for Member {
    fn register() -> Member {
        Member(NonNull::from(Box::leak(Box::new(shared().register()))))
    }

    fn before_exit(self) {
        self.with(Handle::reclaim);
    }

    fn unregister(self) -> bool {
        // A guard that another destructor of the thread still has keeps the record for ever.
        let is_outside = !self.with(Handle::is_inside);
        if is_outside {
            // SAFETY: `join` has made it of a box, and no copy is used after this.
            unsafe { Box::from_raw(self.0.as_ptr()) }.release_without_reclaim();
        } else {
            self.keep();
        }
        is_outside
    }
}

/// The domain of [`pin`].
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
/// A thread registers when it does so for the first time, and gives its record back when it exits; one
/// that does so in a destructor after that keeps a record until the process ends.
///
/// After a fork the child has the guards of the thread that forked, and no others. What the other
/// threads had deferred is freed or, where they were at it, leaked. A [`Section`] that begins before a
/// fork does not end in the child unless it is dropped there.
#[inline]
pub fn pin() -> Guard<'static, System> {
    part().unwrap_or_else(stay).with(Handle::pin_for_long)
}

/// Waits until all sections of the process's domain have ended that had begun before. It calls nothing
/// that was deferred: [`reclaim`] and [`barrier`] do.
///
/// # Panics
/// With a [`Guard`] of this thread, as it would wait for itself. A [`Section`] is not noticed: it waits
/// for ever.
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

/// Waits until all has been called that was deferred in the process's domain before; see
/// [`Domain::barrier`].
///
/// # Panics
/// As [`synchronize`].
pub fn barrier() {
    let is_inside = registered().is_some_and(|member| member.with(Handle::is_inside));
    assert!(!is_inside, "barrier in a section waits for itself");
    shared().barrier();
}

/// Frees what is ready of what the calling thread has deferred, unless somebody has looked a moment ago.
pub(crate) fn reclaim_if_due() {
    if let Some(member) = registered() {
        member.with(Handle::reclaim_if_due);
    }
}

/// Seals what the calling thread has deferred, and frees what is ready.
pub fn reclaim() {
    if let Some(member) = registered() {
        member.with(Handle::reclaim);
    }
}

/// A thread that has left, and cannot do so again, joins for ever.
#[cold]
fn stay() -> Member {
    let member = Member::register();
    member.keep();
    PART.set(Some(member));
    member
}

/// In the child of a fork: the other threads are not there.
#[cfg(all(unix, not(any(loom, miri))))]
extern "C" fn forked() {
    if let Some(domain) = SHARED.get() {
        domain.forked(registered().map(|member| member.with(Handle::node)));
    }
}
