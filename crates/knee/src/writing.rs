//! Whether knee is printing, for the thread that ends it after a signal.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Threads that print.
static WRITERS: AtomicUsize = AtomicUsize::new(0);

/// Runs `write`, which prints. If its reader does not read, a signal ends knee soon.
pub(crate) fn while_writing<T>(write: impl FnOnce() -> T) -> T {
    WRITERS.fetch_add(1, Ordering::Relaxed);
    let written = write();
    WRITERS.fetch_sub(1, Ordering::Relaxed);
    written
}

/// Whether a thread prints.
pub(crate) fn is_writing() -> bool {
    WRITERS.load(Ordering::Relaxed) > 0
}
