//! The domain that the threads of a process have in common.

use std::cell::Cell;
use std::sync::{Once, OnceLock};

use super::domain::Domain;
use super::handle::{Guard, Handle};
use super::section::Section;
use crate::system::{self, System};

static SHARED: OnceLock<Domain<System>> = OnceLock::new();

thread_local! {
    /// Without a destructor, so that to find it costs no check.
    static LOCAL: Cell<Option<&'static Handle<'static, System>>> = const { Cell::new(None) };
    /// Gives the record back when the thread exits.
    static EXIT: Exit = const { Exit };
}

struct Exit;

impl Drop for Exit {
    fn drop(&mut self) {
        let Some(handle) = LOCAL.take() else { return };
        // SAFETY: `register` has leaked it, and nobody else has the reference any more.
        let handle = unsafe { Box::from_raw(std::ptr::from_ref(handle).cast_mut()) };
        // A guard that another destructor of the thread still has keeps its record for ever.
        if handle.is_inside() { handle.leak() } else { drop(handle) }
    }
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
    match LOCAL.get() {
        Some(handle) => handle.pin(),
        None => register().pin(),
    }
}

/// Waits until all sections of the process's domain have ended that had begun before.
///
/// # Panics
/// In a section of this thread, which would wait for itself.
pub fn synchronize() {
    match LOCAL.get() {
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
    if let Some(handle) = LOCAL.get() {
        handle.flush();
    }
}

#[cold]
fn register() -> &'static Handle<'static, System> {
    static FORKS: Once = Once::new();
    FORKS.call_once(|| {
        #[cfg(unix)]
        // SAFETY: the function may be called in the child of a fork: it allocates nothing and takes no
        // lock.
        unsafe {
            libc::pthread_atfork(None, None, Some(forked))
        };
    });
    let handle: &'static Handle<'static, System> = Box::leak(Box::new(shared().register()));
    LOCAL.set(Some(handle));
    // A thread that is exiting has no destructor any more, and keeps its record.
    let _ = EXIT.try_with(|_| {});
    handle
}

#[cfg(unix)]
extern "C" fn forked() {
    system::forked();
    let Some(domain) = SHARED.get() else { return };
    domain.forked(LOCAL.get().map(Handle::node));
}
