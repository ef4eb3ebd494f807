//! The process's domain, in which each thread takes part on its own.

use std::ptr::NonNull;
use std::sync::OnceLock;

use crate::per_thread::{self, Part, per_thread};
use crate::primitive::AtomicPtr;
use crate::registry::Node;
use crate::system::System;

use super::guard::{self, Record};
use super::{Domain, Guard, Handle};

static DOMAIN: OnceLock<Domain<System>> = OnceLock::new();

per_thread!(Member, in_child: forked);

/// A thread that takes part.
#[derive(Clone, Copy)]
struct Member {
    /// Made of a `Box`, which `leave` takes back.
    handle: NonNull<Handle<'static>>,
    /// The handle's first record: readers need no more.
    node: &'static Node<Record>,
}

impl Part for Member {
    fn register() -> Member {
        let handle = Box::leak(Box::new(DOMAIN.get_or_init(Domain::default).register()));
        Member { node: handle.node(), handle: NonNull::from(handle) }
    }

    fn unregister(self) -> bool {
        // SAFETY: `join` has made it of a box, and no copy is used after this.
        drop(unsafe { Box::from_raw(self.handle.as_ptr()) });
        true
    }
}

/// Calls `with` with the thread's handle.
fn with_handle<R>(with: impl FnOnce(&Handle<'static>) -> R) -> R {
    // SAFETY: the handle is there until `leave`, and used by its thread alone.
    per_thread::with(part(), |member| with(unsafe { member.handle.as_ref() }))
}

/// In the child of a fork: the other threads are not there, and protect nothing.
#[cfg(all(unix, not(any(loom, miri))))]
extern "C" fn forked() {
    if let Some(domain) = DOMAIN.get() {
        // SAFETY: as in `with_handle`.
        domain.forked(registered().map(|member| unsafe { member.handle.as_ref() }));
    }
}

/// Protects what `source` points to in the process's domain; `None` if it is null.
///
/// # Safety
/// As with [`Handle::protect`].
#[inline]
pub unsafe fn protect<T>(source: &AtomicPtr<T>) -> Option<Guard<'static, T>> {
    if let Some(Member { node, .. }) = registered()
        && let Some(slot) = node.value.free()
    {
        // SAFETY: this thread has the record; the rest is said by the caller.
        return unsafe { guard::protect(node, slot, source) };
    }
    // SAFETY: said by the caller.
    unsafe { protect_slowly(source) }
}

/// # Safety
/// As above.
#[cold]
unsafe fn protect_slowly<T>(source: &AtomicPtr<T>) -> Option<Guard<'static, T>> {
    // SAFETY: said by the caller.
    with_handle(|handle| unsafe { handle.protect(source) })
}

/// Frees an object of the process's domain once nobody protects it.
///
/// # Safety
/// As with [`Handle::retire`].
pub unsafe fn retire<T: Send + 'static>(object: *mut T) {
    // SAFETY: said by the caller.
    with_handle(|handle| unsafe { handle.retire(object) });
}

/// Frees what this thread has retired to the process's domain and nobody protects. To call it is
/// never necessary; before a long sleep it brings memory back early.
pub fn reclaim() {
    with_handle(Handle::reclaim);
}
