//! Handlers for the child of a fork, which has one thread and the memory as all threads had it.

use std::sync::Once;

/// A function that runs in every child from now on. Each module with state for the threads of the process
/// has one of its own. They run in any order.
pub(crate) struct InChild {
    registered: Once,
    /// Allocates nothing and takes no lock.
    handler: extern "C" fn(),
}

impl InChild {
    pub(crate) const fn new(handler: extern "C" fn()) -> InChild {
        InChild { registered: Once::new(), handler }
    }

    /// Registers the handler, at the first call.
    pub(crate) fn register(&self) {
        self.registered.call_once(|| {
            // SAFETY: the handler does only what is allowed in the child of a process with several threads.
            unsafe { libc::pthread_atfork(None, None, Some(self.handler)) };
        });
    }
}
