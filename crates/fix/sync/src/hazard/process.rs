//! The domain of the process. A thread registers with this domain when it first uses the domain.

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

/// A registered thread.
#[derive(Clone, Copy)]
struct Member {
    /// The handle comes from a `Box`, which `unregister` drops.
    handle: NonNull<Handle<'static>>,
    /// The handle's first record. A reader usually needs only this record.
    node: &'static Node<Record>,
}

impl Part for Member {
    fn register() -> Member {
        let handle = Box::leak(Box::new(DOMAIN.get_or_init(Domain::default).register()));
        Member { node: handle.node(), handle: NonNull::from(handle) }
    }

    fn unregister(self) -> bool {
        // SAFETY: `register` made the pointer from a box, and no copy of it is used after this.
        drop(unsafe { Box::from_raw(self.handle.as_ptr()) });
        true
    }
}

/// Passes the thread's handle to `with`.
fn with_handle<R>(with: impl FnOnce(&Handle<'static>) -> R) -> R {
    // SAFETY: the handle exists until `unregister`, and only its thread uses it.
    per_thread::with(&PART, part(), |member| with(unsafe { member.handle.as_ref() }))
}

/// Repairs the domain in the child of a fork, where the other threads are missing and protect nothing.
#[cfg(all(unix, not(any(loom, miri))))]
extern "C" fn forked() {
    if let Some(domain) = DOMAIN.get() {
        // SAFETY: as in `with_handle`.
        let own = registered().map(|member| unsafe { member.handle.as_ref() });
        let is_own = |node: &Node<Record>| own.is_some_and(|own| own.has(node));
        domain.forked(is_own, own.and_then(Handle::garbage_node));
    }
}

/// Protects the object that `source` points to, in the process's domain. Returns `None` if `source` is
/// null.
///
/// # Safety
/// The contract of [`Handle::protect`].
#[inline]
pub unsafe fn protect<T>(source: &AtomicPtr<T>) -> Option<Guard<'static, T>> {
    // SAFETY: the contract is the same.
    unsafe { protect_with(source, |pointer| pointer) }.1
}

/// Like [`protect`], for links that carry marks; see [`Handle::protect_with`].
///
/// # Safety
/// The contract of [`Handle::protect_with`].
#[inline]
pub unsafe fn protect_with<T>(
    source: &AtomicPtr<T>,
    object: impl Fn(*mut T) -> *mut T,
) -> (*mut T, Option<Guard<'static, T>>) {
    if let Some(Member { node, .. }) = registered()
        && let Some(slot) = node.value.free()
    {
        // SAFETY: this thread owns the record, and `slot` is one of the record's free slots. The rest of the
        // contract is the same.
        return unsafe { guard::protect(node, slot, source, object) };
    }
    // SAFETY: the contract is the same.
    unsafe { protect_slowly(source, object) }
}

/// # Safety
/// The contract of [`Handle::protect_with`].
#[cold]
unsafe fn protect_slowly<T>(
    source: &AtomicPtr<T>,
    object: impl Fn(*mut T) -> *mut T,
) -> (*mut T, Option<Guard<'static, T>>) {
    // SAFETY: the contract is the same.
    with_handle(|handle| unsafe { handle.protect_with(source, object) })
}

/// Frees an object of the process's domain once no guard protects it.
///
/// # Safety
/// The contract of [`Handle::retire`].
pub unsafe fn retire<T: Send + 'static>(object: *mut T) {
    // SAFETY: the contract is the same.
    with_handle(|handle| unsafe { handle.retire(object) });
}

/// Frees the objects that this thread has retired to the process's domain, unless a guard protects them. It
/// is never necessary to call this function, but a call before a long sleep frees memory early.
pub fn reclaim() {
    with_handle(Handle::reclaim);
}

/// The number of objects of the process's domain that this thread has retired or adopted, but not yet freed.
pub fn garbage() -> usize {
    with_handle(Handle::garbage)
}

/// Waits until every object that any thread has retired to the process's domain so far is freed, unless a
/// guard protects it; see [`Domain::barrier`].
///
/// # Panics
/// In the cases that [`Domain::barrier`] lists.
pub fn barrier() {
    DOMAIN.get_or_init(Domain::default).barrier();
}
