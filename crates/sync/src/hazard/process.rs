//! The process's domain, in which each thread takes part on its own.

use std::cell::Cell;
use std::sync::OnceLock;

use crate::primitive::AtomicPtr;
use crate::registry::Node;
use crate::system::System;

use super::guard::{self, Record};
use super::{Domain, Guard, Handle};

static DOMAIN: OnceLock<Domain<System>> = OnceLock::new();

thread_local! {
    /// The record of the thread's handle, where a reader finds it without asking whether the handle
    /// was made yet or is gone already.
    static RECORD: Cell<Option<&'static Node<Record>>> = const { Cell::new(None) };

    static MEMBER: Member = Member::join();
}

/// A thread that takes part.
struct Member(Handle<'static>);

impl Member {
    #[cold]
    fn join() -> Member {
        let handle = handle();
        RECORD.set(Some(handle.node()));
        Member(handle)
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        RECORD.set(None);
    }
}

fn handle() -> Handle<'static> {
    DOMAIN.get_or_init(Domain::default).handle()
}

/// Calls `with` with the thread's handle. A thread that is ending has none any more, and gets one for
/// this call.
fn with_handle<R>(with: impl Fn(&Handle<'static>) -> R) -> R {
    MEMBER.try_with(|member| with(&member.0)).unwrap_or_else(|_| with(&handle()))
}

/// Protects what `source` points to in the process's domain; `None` if it is null.
///
/// # Safety
/// As with [`Handle::protect`].
#[inline]
pub unsafe fn protect<T>(source: &AtomicPtr<T>) -> Option<Guard<'static, T>> {
    if let Some(node) = RECORD.get()
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
