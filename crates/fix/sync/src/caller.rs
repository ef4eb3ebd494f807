//! Identifies the calling thread, so that a thread can detect that it would wait for itself.

/// A nonzero number that identifies the calling thread: the address of a thread-local variable. The number
/// stays the same in the child of a fork, where the thread has a different thread ID.
///
/// loom and shuttle run their threads as coroutines of one thread. Under loom, under shuttle, and without
/// `std`, all threads have the same number, and [`is_known`](Caller::is_known) always returns false.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Caller(pub(crate) u64);

impl Caller {
    #[cfg(all(feature = "std", not(any(loom, shuttle))))]
    pub(crate) fn get() -> Caller {
        std::thread_local! {
            static OWN: u8 = const { 0 };
        }
        OWN.with(|own| Caller(core::ptr::from_ref(own).addr() as u64))
    }

    #[cfg(not(all(feature = "std", not(any(loom, shuttle)))))]
    pub(crate) fn get() -> Caller {
        Caller(1)
    }

    /// Whether `number` is known to be that of the calling thread.
    pub(crate) fn is_known(self, number: u64) -> bool {
        cfg!(all(feature = "std", not(any(loom, shuttle)))) && number == self.0
    }
}
