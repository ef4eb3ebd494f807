//! Handlers that run in the child of a fork. The child has a copy of the parent's memory. Of the parent's
//! threads, only the one that forked exists in the child.

use std::sync::Once;

/// A handler that runs in each child that is forked after the handler was registered. Each module that
/// keeps per-thread state has its own handler. Handlers may run in any order.
pub(crate) struct InChild {
    registered: Once,
    /// The function must not allocate or take a lock.
    handler: extern "C" fn(),
}

impl InChild {
    pub(crate) const fn new(handler: extern "C" fn()) -> InChild {
        InChild { registered: Once::new(), handler }
    }

    /// Registers the handler at the first call; later calls do nothing.
    pub(crate) fn register(&self) {
        self.registered.call_once(|| {
            // SAFETY: the handler does only what is allowed in the child of a process with several threads.
            unsafe { libc::pthread_atfork(None, None, Some(self.handler)) };
        });
    }
}
