//! A sleep until readers are out.

use core::sync::atomic::Ordering::{Relaxed, SeqCst};

use crate::platform::Platform;
use crate::primitive::{AtomicU32, constant, fence};

/// Rounds of the platform's wait before the thread sleeps: most readers are out sooner.
#[cfg(all(target_os = "linux", feature = "std", not(any(loom, miri))))]
const AWAKE: u32 = 80;

/// How long one sleep is at most. A wake-up may be missed, where readers execute no fence for it
/// (see `Bias::leave`); it is late then, and not lost.
#[cfg(all(target_os = "linux", feature = "std", not(any(loom, miri))))]
const SLEEP: core::time::Duration = core::time::Duration::from_millis(1);

/// What one thread waits for and others tell.
#[derive(Debug)]
pub(super) struct Event {
    /// 1 while somebody sleeps, or is about to.
    sleeping: AtomicU32,
}

impl Event {
    constant! {
        pub(super) fn new() -> Event {
            Event { sleeping: AtomicU32::new(0) }
        }
    }

    /// Waits until `is_over` is true.
    pub(super) fn wait(&self, platform: &impl Platform, is_over: impl Fn() -> bool) {
        let mut round = 0;
        while !is_over() {
            #[cfg(all(target_os = "linux", feature = "std", not(any(loom, miri))))]
            if round >= AWAKE {
                self.sleeping.store(1, Relaxed);
                // With the fence of `notify`: if it came first, `is_over` sees what was told; if
                // this one did, `notify` sees that somebody sleeps.
                fence(SeqCst);
                if !is_over() {
                    crate::futex::wait(&self.sleeping, 1, SLEEP);
                }
                continue;
            }
            platform.relax(round);
            round = round.saturating_add(1);
        }
    }

    /// Wakes those who wait: something has changed.
    #[cold]
    pub(super) fn notify(&self) {
        fence(SeqCst);
        if self.sleeping.load(Relaxed) == 1 {
            self.sleeping.store(0, Relaxed);
            #[cfg(all(target_os = "linux", feature = "std", not(any(loom, miri))))]
            crate::futex::wake_all(&self.sleeping);
        }
    }
}
