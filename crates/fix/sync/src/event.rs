//! A sleep until others have done something.

use core::sync::atomic::Ordering::{Relaxed, SeqCst};

use crate::mutant::is_mutant;
use crate::platform::Platform;
use crate::primitive::{AtomicU32, constant, fence};

/// Rounds of the platform's wait before the thread sleeps: most waits are over sooner.
#[cfg(all(target_os = "linux", feature = "std", not(any(loom, shuttle, miri))))]
const SPINS_BEFORE_SLEEP: u32 = 80;

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
            if round >= SPINS_BEFORE_SLEEP {
                self.sleep(&is_over, |sleeping| crate::futex::wait(sleeping, 1, SLEEP));
            }
            // Also between sleeps: the platform may have something to do meanwhile that those whom we
            // wait for wait for, as a kernel's CPU takes interrupts while a thread sleeps.
            platform.relax(round);
            round = round.saturating_add(1);
        }
    }

    /// Sleeps by `wait`, which does so while the word is 1, unless it is over.
    #[cfg(any(
        all(target_os = "linux", feature = "std", not(any(loom, shuttle, miri))),
        all(test, loom)
    ))]
    fn sleep(&self, is_over: impl Fn() -> bool, wait: impl FnOnce(&AtomicU32)) {
        self.sleeping.store(1, Relaxed);
        // With the fence of `notify`: if that came first, `is_over` sees what was told; if this one did,
        // `notify` sees that somebody sleeps.
        if !is_mutant!("event_sleep_no_fence") {
            fence(SeqCst);
        }
        if !is_over() {
            wait(&self.sleeping);
        }
    }

    /// Wakes those who wait: something has changed.
    #[cold]
    pub(crate) fn notify(&self) {
        self.wake(|_sleeping| {
            #[cfg(all(target_os = "linux", feature = "std", not(any(loom, shuttle, miri))))]
            crate::futex::wake_all(_sleeping);
        });
    }

    /// Wakes by `wake` those who sleep.
    fn wake(&self, wake: impl FnOnce(&AtomicU32)) {
        if !is_mutant!("event_wake_no_fence") {
            fence(SeqCst);
        }
        if self.sleeping.load(Relaxed) == 1 {
            self.sleeping.store(0, Relaxed);
            wake(&self.sleeping);
        }
    }
}

#[cfg(all(test, loom))]
mod modelled {
    use super::*;

    use crate::primitive::AtomicBool;
    use loom::sync::{Arc, Condvar, Mutex};

    use crate::model::{check_symmetric, thread};

    /// futex(2), without an end of the time: who is not woken sleeps for ever, of which loom complains.
    #[derive(Default)]
    struct Kernel {
        lock: Mutex<()>,
        sleepers: Condvar,
    }

    impl Kernel {
        fn wait(&self, word: &AtomicU32) {
            let guard = self.lock.lock().unwrap();
            if word.load(Relaxed) == 1 {
                drop(self.sleepers.wait(guard).unwrap());
            }
        }

        fn wake(&self, _: &AtomicU32) {
            let _guard = self.lock.lock().unwrap();
            self.sleepers.notify_all();
        }
    }

    struct Shared {
        event: Event,
        kernel: Kernel,
        told: AtomicBool,
    }

    #[test]
    fn who_sleeps_is_woken() {
        check_symmetric(3, || {
            let shared = Arc::new(Shared {
                event: Event::new(),
                kernel: Kernel::default(),
                told: AtomicBool::new(false),
            });
            let other = thread::spawn({
                let shared = Arc::clone(&shared);
                move || {
                    shared.told.store(true, Relaxed);
                    shared.event.wake(|word| shared.kernel.wake(word));
                }
            });
            let is_over = || shared.told.load(Relaxed);
            shared.event.sleep(is_over, |word| shared.kernel.wait(word));
            other.join().unwrap();
        });
    }
}
