//! Lets threads sleep until another thread has changed something.

use core::sync::atomic::Ordering::{Relaxed, SeqCst};

use crate::mutant::is_mutant;
use crate::platform::Platform;
use crate::primitive::{AtomicU32, constant, fence};

/// The number of rounds for which a thread spins before it sleeps; most waits end sooner.
#[cfg(all(target_os = "linux", feature = "std", not(any(loom, shuttle, miri))))]
const SPINS_BEFORE_SLEEP: u32 = 80;

/// The maximum duration of a sleep. This bounds how long a writer sleeps if no reader wakes it. When a reader
/// releases a lock, it executes no fence before it checks whether a writer has shut the lock. So the reader
/// may miss a waiting writer (see `rm::bias::Bias::leave`).
#[cfg(all(target_os = "linux", feature = "std", not(any(loom, shuttle, miri))))]
const SLEEP: core::time::Duration = core::time::Duration::from_micros(200);

/// An event that some threads wait for and other threads signal.
#[derive(Debug)]
pub(crate) struct Event {
    /// 1 while a thread sleeps or is about to sleep.
    sleeping: AtomicU32,
}

impl Event {
    constant! {
        pub(crate) fn new() -> Event {
            Event { sleeping: AtomicU32::new(0) }
        }
    }

    /// Waits until `is_over` returns true.
    pub(crate) fn wait(&self, platform: &impl Platform, is_over: impl Fn() -> bool) {
        let mut round = 0;
        while !is_over() {
            #[cfg(all(target_os = "linux", feature = "std", not(any(loom, shuttle, miri))))]
            if round >= SPINS_BEFORE_SLEEP {
                self.sleep(&is_over, |sleeping| crate::futex::wait(sleeping, 1, SLEEP));
            }
            // `relax` is also called between sleeps, because a waiting thread may have other duties. For
            // example, a CPU must handle interrupts.
            platform.relax(round);
            round = round.saturating_add(1);
        }
    }

    /// Sleeps in `wait`, unless `is_over` returns true. `wait` returns at once if the word is not 1.
    #[cfg(any(
        all(target_os = "linux", feature = "std", not(any(loom, shuttle, miri))),
        all(test, loom)
    ))]
    fn sleep(&self, is_over: impl Fn() -> bool, wait: impl FnOnce(&AtomicU32)) {
        self.sleeping.store(1, Relaxed);
        // Pairs with the fence in `wake`. If the fence in `wake` came before this fence, `is_over` sees the
        // change. If this fence came before the fence in `wake`, `wake` sees that this thread is about to
        // sleep.
        if !is_mutant!("event_sleep_no_fence") {
            fence(SeqCst);
        }
        if !is_over() {
            wait(&self.sleeping);
        }
    }

    /// Wakes all waiters after a change.
    #[cold]
    pub(crate) fn notify(&self) {
        self.wake(|_sleeping| {
            #[cfg(all(target_os = "linux", feature = "std", not(any(loom, shuttle, miri))))]
            crate::futex::wake_all(_sleeping);
        });
    }

    /// Calls `wake` if a thread sleeps or is about to sleep.
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

    /// futex(2) without a time-out: loom reports a deadlock if a sleeper is not woken.
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
    fn a_sleeper_is_woken() {
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
