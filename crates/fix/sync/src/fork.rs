//! Handlers that run in the child of a fork, which has a copy of the memory and only the forking thread.

use std::sync::Once;

/// A handler that runs in each child that is forked after its registration. Each module with state of the
/// process's threads has its own handler. Handlers run in any order.
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
