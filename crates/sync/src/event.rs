//! A sleep until others have done something.

use core::sync::atomic::Ordering::{Relaxed, SeqCst};

use crate::platform::Platform;
use crate::primitive::{AtomicU32, constant, fence};

/// Rounds of the platform's wait before the thread sleeps: most waits are over sooner.
#[cfg(all(target_os = "linux", feature = "std", not(any(loom, shuttle, miri))))]
const AWAKE: u32 = 80;

/// How long one sleep is at most. A wake-up may be missed, where readers of a lock execute no fence for
/// it (see `rm::bias::Bias::leave`); it is late then, and not lost.
#[cfg(all(target_os = "linux", feature = "std", not(any(loom, shuttle, miri))))]
const SLEEP: core::time::Duration = core::time::Duration::from_micros(200);

/// What some threads wait for and others tell.
#[derive(Debug)]
pub(crate) struct Event {
    /// 1 while somebody sleeps, or is about to.
    sleeping: AtomicU32,
}

impl Event {
    constant! {
        pub(crate) fn new() -> Event {
            Event { sleeping: AtomicU32::new(0) }
        }
    }

    /// Waits until `is_over` is true.
    pub(crate) fn wait(&self, platform: &impl Platform, is_over: impl Fn() -> bool) {
        let mut round = 0;
        while !is_over() {
            #[cfg(all(target_os = "linux", feature = "std", not(any(loom, shuttle, miri))))]
            if round >= AWAKE {
                self.sleeping.store(1, Relaxed);
                // With the fence of `notify`: if it came first, `is_over` sees what was told; if
                // this one did, `notify` sees that somebody sleeps.
                fence(SeqCst);
                if !is_over() {
                    crate::futex::wait(&self.sleeping, 1, SLEEP);
                }
            }
            // Also between sleeps: the platform may have something to do meanwhile that those whom we
            // wait for wait for, as a kernel's CPU takes interrupts while a thread sleeps.
            platform.relax(round);
            round = round.saturating_add(1);
        }
    }

    /// Wakes those who wait: something has changed.
    #[cold]
    pub(crate) fn notify(&self) {
        fence(SeqCst);
        if self.sleeping.load(Relaxed) == 1 {
            self.sleeping.store(0, Relaxed);
            #[cfg(all(target_os = "linux", feature = "std", not(any(loom, shuttle, miri))))]
            crate::futex::wake_all(&self.sleeping);
        }
    }
}
