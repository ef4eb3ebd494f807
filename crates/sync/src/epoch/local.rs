//! The domain that the threads of a process have in common.

use std::cell::Cell;
use std::ptr;
use std::sync::{Once, OnceLock};

use super::domain::Domain;
use super::handle::{Guard, Handle};
use super::section::Section;
use crate::system::{self, System};

static SHARED: OnceLock<Domain<System>> = OnceLock::new();

thread_local! {
    /// Without a destructor, so that to find it costs no check.
    static LOCAL: Cell<*mut Handle<'static, System>> = const { Cell::new(ptr::null_mut()) };
    /// Gives the record back when the thread exits.
    static EXIT: Exit = const { Exit };
}

struct Exit;

impl Drop for Exit {
    fn drop(&mut self) {
        let handle = LOCAL.replace(ptr::null_mut());
        if handle.is_null() {
            return;
        }
        // SAFETY: `register` has made it of a `Box`, and the last reference ended with `local`.
        let handle = unsafe { Box::from_raw(handle) };
        // A guard that another destructor of the thread still has keeps its record for ever.
        if handle.is_inside() { handle.leak() } else { drop(handle) }
    }
}

/// The thread's handle. The reference is not to be kept beyond the caller: the thread may exit.
#[inline]
fn local<'a>() -> Option<&'a Handle<'static, System>> {
    // SAFETY: it is null, or what `register` has made and `Exit` not yet freed; this thread runs
    // neither of them while a caller of this function has the reference.
    unsafe { LOCAL.get().as_ref() }
}

/// The domain of [`pin`].
pub fn shared() -> &'static Domain<System> {
    SHARED.get_or_init(|| Domain::new(System::detect()))
}

/// Enters a section of the process's domain.
///
/// A thread registers when it does so for the first time, and gives its record back when it exits; one
/// that does so in a destructor after that keeps a record until the process ends.
///
/// After a fork the child has the guards of the thread that forked, and no others. What the other
/// threads had deferred is freed or, where they were at it, leaked. A [`Section`] that begins before a
/// fork does not end in the child unless it is dropped there.
#[inline]
pub fn pin() -> Guard<'static, System> {
    match local() {
        Some(handle) => handle.pin_for_long(),
        None => register().pin_for_long(),
    }
}

/// Waits until all sections of the process's domain have ended that had begun before.
///
/// # Panics
/// In a section of this thread, which would wait for itself.
pub fn synchronize() {
    match local() {
        Some(handle) => handle.synchronize(),
        None => shared().synchronize(),
    }
}

/// A section of the process's domain that may be held across anything; see [`Section`].
pub fn section() -> Section<'static, System> {
    shared().section()
}

/// Seals what the calling thread has deferred, and frees what is ready.
pub fn flush() {
    if let Some(handle) = local() {
        handle.flush();
    }
}

#[cold]
fn register<'a>() -> &'a Handle<'static, System> {
    static FORKS: Once = Once::new();
    FORKS.call_once(|| {
        #[cfg(unix)]
        // SAFETY: the function may be called in the child of a fork: it allocates nothing and takes no
        // lock.
        unsafe {
            libc::pthread_atfork(None, None, Some(forked))
        };
    });
    LOCAL.set(Box::into_raw(Box::new(shared().register())));
    // A thread that is exiting has no destructor any more, and keeps its record.
    let _ = EXIT.try_with(|_| {});
    local().expect("it is there from now on")
}

#[cfg(unix)]
extern "C" fn forked() {
    system::forked();
    let Some(domain) = SHARED.get() else { return };
    domain.forked(local().map(Handle::node));
}
