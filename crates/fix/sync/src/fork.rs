//! What a fork leaves to the child: the thread that forked, and memory as all threads had it.

use std::sync::Once;

/// Tends to the process's own domains, locks and numbers in all children from now on.
pub(crate) fn watch() {
    static WATCHED: Once = Once::new();
    WATCHED.call_once(|| {
        #[cfg(all(unix, not(any(loom, miri))))]
        // SAFETY: the function may be called in the child of a fork: it allocates nothing and takes no
        // lock.
        unsafe {
            libc::pthread_atfork(None, None, Some(in_child))
        };
    });
}

#[cfg(all(unix, not(any(loom, miri))))]
extern "C" fn in_child() {
    crate::system::forked();
    crate::number::forked();
    crate::epoch::forked();
    crate::hazard::forked();
    crate::rm::forked();
}
