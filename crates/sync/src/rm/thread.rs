//! The slots of the process's threads.

use std::cell::Cell;
use std::ptr;

use super::slots::Slots;
use crate::platform::Platform;
use crate::registry::{Node, Registry};
use crate::system::System;

/// The slots of all threads.
pub(super) static READERS: Registry<Slots> = Registry::new();

thread_local! {
    static MINE: Cell<*const Node<Slots>> = const { Cell::new(ptr::null()) };
    static EXIT: Exit = const { Exit };
}

/// The slots of this thread; none if the thread is about to exit and has given them back.
#[inline]
pub(super) fn slots() -> Option<&'static Slots> {
    // SAFETY: it is null or a node of `READERS`, which stays for ever.
    match unsafe { MINE.get().as_ref() } {
        Some(node) => Some(&node.value),
        None => join(),
    }
}

#[cold]
fn join() -> Option<&'static Slots> {
    EXIT.try_with(|_| ()).ok()?;
    let node = READERS.take_or_make(|| Slots::new(System::detect().is_symmetric()));
    MINE.set(node);
    Some(&node.value)
}

/// Gives the thread's slots back at its exit.
struct Exit;

impl Drop for Exit {
    fn drop(&mut self) {
        // SAFETY: as in `slots`.
        let Some(node) = (unsafe { MINE.get().as_ref() }) else { return };
        // Somebody has forgotten a guard, or another destructor of the thread has one yet: then the
        // slots are this thread's for ever, and the locks are locked as the guards say.
        if node.value.is_idle() {
            MINE.set(ptr::null());
            node.release();
        }
    }
}
