//! A platform for loom, which knows full fences and no asymmetric ones.

use core::sync::atomic::Ordering::SeqCst;

use crate::platform::Platform;

/// Threads of a model.
#[derive(Debug, Default)]
pub(crate) struct Model;

// SAFETY: it is symmetric, and its fence is a full one.
unsafe impl Platform for Model {
    fn is_symmetric(&self) -> bool {
        true
    }

    fn heavy(&self) {
        loom::sync::atomic::fence(SeqCst);
    }

    fn relax(&self, _: u32) {
        loom::thread::yield_now();
    }

    fn now(&self) -> u64 {
        0
    }

    fn thread(&self) -> u64 {
        0
    }
}

/// Tries all orders of `threads` with at most `preemptions` switches that no thread asks for.
pub(crate) fn check(preemptions: usize, threads: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(threads);
}
