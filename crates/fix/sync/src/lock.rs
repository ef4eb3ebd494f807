//! A mutex whose owner runs at the priority of the highest-priority waiter.
//!
//! If a high-priority thread waits for a low-priority owner, it also waits for all threads of medium
//! priority, because they preempt the owner: *priority inversion*. The turnstiles of some kernels lend the
//! owner the priority of the highest-priority waiter. If the owner itself waits for a lock, the turnstiles
//! pass this priority on to that lock's owner. Linux offers this to processes as `FUTEX_LOCK_PI` of futex(2).
//! On other systems this module does not exist.
//!
//! *Use it* for data that threads with a real-time policy (`SCHED_FIFO`, `SCHED_RR`, `SCHED_DEADLINE`) share
//! with other threads, as in audio or robotics. *Do not use it* for anything else: each contended lock and
//! unlock is a system call, the kernel hands the lock to a waiter that must first wake up, and threads with
//! the default policy lend nothing.
//!
//! ```
//! use knee_sync::lock::PiMutex;
//!
//! static SETPOINT: PiMutex<f64> = PiMutex::new(0.0);
//! *SETPOINT.lock() = 1.5;
//! assert_eq!(*SETPOINT.lock(), 1.5);
//! ```
//!
//! ```text
//! low priority    ├ lock ─── runs at the waiter's priority ─── unlock ┤
//! high priority            ├ lock: waits, lends its priority ─────────├ holds the lock
//! medium                     (cannot preempt the owner)
//! ```

use std::hint;
use std::io;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use lock_api::{GuardNoSend, RawMutex};

use crate::futex;
use crate::mutant::order;
use crate::system::thread;

/// A value behind a [`RawPiMutex`]; see [the module](self).
pub type PiMutex<T> = lock_api::Mutex<RawPiMutex, T>;

/// The guard of a locked [`PiMutex`].
pub type PiMutexGuard<'a, T> = lock_api::MutexGuard<'a, RawPiMutex, T>;

/// The lock of a [`PiMutex`], without a value.
///
/// A waiter spins for about a microsecond, because most owners unlock within this time. Then it sleeps in the
/// kernel. A panic unlocks the mutex and does not poison it.
///
/// # Panics
/// [`lock`](lock_api::Mutex::lock) panics if the thread already holds the lock, if the owner waits for a lock
/// that the thread holds, or if the owner leaked its guard and exited. Without the panic, `lock` would wait
/// forever.
#[derive(Debug)]
pub struct RawPiMutex {
    /// 0 if the mutex is unlocked. Otherwise the owner's TID, with the bit [`libc::FUTEX_WAITERS`] set if
    /// there are waiters in the kernel.
    owner: AtomicU32,
}

/// The number of attempts, each followed by a pause, before the thread sleeps. All attempts together take a
/// few microseconds on the CPUs with the slowest pause instruction. A high-priority waiter that spins
/// occupies only its own CPU, and only for this time.
const SPINS: u32 = 100;

impl RawPiMutex {
    #[inline]
    fn try_take(&self, me: u32) -> bool {
        self.owner.compare_exchange(0, me, order!(Acquire, "pi_take"), Relaxed).is_ok()
    }

    #[cold]
    fn wait(&self, me: u32) {
        for _ in 0..SPINS {
            match self.owner.load(Relaxed) {
                0 if self.try_take(me) => return,
                // The kernel will hand the mutex to a sleeping waiter, so spinning is useless.
                owner if owner & libc::FUTEX_WAITERS != 0 => break,
                _ => hint::spin_loop(),
            }
        }
        loop {
            match futex::lock_pi(&self.owner).map_err(|error| error.raw_os_error()) {
                // Relaxed: the last owner or the kernel released the mutex with an exchange of the word. Then
                // the kernel exchanged the word on behalf of this thread. That exchange is a full fence, and
                // came before the return of the call. The kernel stored the value that this load returns, so
                // an Acquire would have no store of the program to pair with. If an owner leaked its guard
                // and exited, references to the value may still exist, so no thread takes over the mutex.
                Ok(()) if self.owner.load(Relaxed) & libc::FUTEX_OWNER_DIED == 0 => return,
                Ok(()) | Err(Some(libc::ESRCH)) => {
                    panic!("the owner of a PiMutex exited without unlocking it")
                }
                // The owner is exiting, or a signal arrived.
                Err(Some(libc::EAGAIN | libc::EINTR)) => (),
                Err(Some(libc::EDEADLK)) => panic!(
                    "deadlock: the thread already holds this PiMutex, or the owner waits for a PiMutex that the thread holds"
                ),
                Err(error) => {
                    let error = error.map_or_else(io::Error::last_os_error, |code| {
                        io::Error::from_raw_os_error(code)
                    });
                    panic!("futex(2) cannot lock a PiMutex: {error}");
                }
            }
        }
    }
}

// SAFETY: a thread becomes the owner, here or in the kernel, only if the word is 0 or the last owner unlocks.
// The word then contains the new owner's TID until that owner unlocks. The guard is not `Send`, because
// the kernel requires that the owner itself unlocks the mutex.
unsafe impl RawMutex for RawPiMutex {
    #[allow(clippy::declare_interior_mutable_const)] // The trait requires it.
    const INIT: RawPiMutex = RawPiMutex { owner: AtomicU32::new(0) };

    type GuardMarker = GuardNoSend;

    #[inline]
    fn lock(&self) {
        let me = thread();
        if !self.try_take(me) {
            self.wait(me);
        }
    }

    #[inline]
    fn try_lock(&self) -> bool {
        self.try_take(thread())
    }

    #[inline]
    unsafe fn unlock(&self) {
        let give = order!(Release, "pi_give");
        if self.owner.compare_exchange(thread(), 0, give, Relaxed).is_err() {
            // A waiter sleeps in the kernel. The kernel's exchange of the word is a full fence for the owner
            // and the waiter, and the compiler moves no access across the call.
            futex::unlock_pi(&self.owner).expect("the owner may unlock");
        }
    }

    #[inline]
    fn is_locked(&self) -> bool {
        self.owner.load(Relaxed) != 0
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{self, AssertUnwindSafe};
    use std::sync::mpsc;
    use std::thread;

    use super::*;

    #[test]
    fn one_thread_at_a_time_has_the_mutex() {
        let count = PiMutex::new(0_u64);
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for round in 0..20_000 {
                        let mut guard = count.lock();
                        let before = *guard;
                        if round % 256 == 0 {
                            thread::yield_now();
                        }
                        *guard = before + 1;
                    }
                });
            }
        });
        assert_eq!(*count.lock(), 80_000);
    }

    #[test]
    fn an_owner_sees_what_the_last_owner_wrote() {
        // Initialises process-wide state before the threads start, because initialising it later could
        // synchronize the threads.
        assert_eq!(*PiMutex::new(0).lock(), 0);
        let count = PiMutex::new(0);
        thread::scope(|scope| {
            for _ in 0..2 {
                // No thread waits in the kernel, because Miri does not support `FUTEX_LOCK_PI`.
                scope.spawn(|| {
                    loop {
                        match count.try_lock() {
                            Some(mut count) => break *count += 1,
                            None => thread::yield_now(),
                        }
                    }
                });
            }
        });
        assert_eq!(count.into_inner(), 2);
    }

    #[test]
    fn a_thread_cannot_lock_twice() {
        let mutex = PiMutex::new(());
        let guard = mutex.lock();
        assert!(mutex.is_locked() && mutex.try_lock().is_none());
        assert!(panic::catch_unwind(AssertUnwindSafe(|| drop(mutex.lock()))).is_err());
        drop(guard);
        assert!(!mutex.is_locked() && mutex.try_lock().is_some());
    }

    #[test]
    fn the_lock_of_a_leaked_guard_stays_locked() {
        let mutex = PiMutex::new(());
        thread::scope(|scope| {
            let owner = scope.spawn(|| std::mem::forget(mutex.lock()));
            owner.join().unwrap();
        });
        assert!(mutex.try_lock().is_none());
        assert!(panic::catch_unwind(AssertUnwindSafe(|| drop(mutex.lock()))).is_err());
    }

    /// The current priority of a thread of this process in the kernel's scheduler. Real-time priorities
    /// are negative.
    fn priority(thread: u32) -> i32 {
        let stat = std::fs::read_to_string(format!("/proc/self/task/{thread}/stat")).unwrap();
        // The second field is the thread's name in parentheses, so the third field follows the last
        // parenthesis.
        let fields = &stat[stat.rfind(')').unwrap() + 2..];
        fields.split(' ').nth(15).unwrap().parse().unwrap()
    }

    #[test]
    fn the_owner_inherits_the_priority_of_a_waiter() {
        let mutex = PiMutex::new(());
        let guard = mutex.lock();
        let me = crate::system::thread();
        assert!(priority(me) >= 0);
        thread::scope(|scope| {
            let (tell, told) = mpsc::channel();
            let mutex = &mutex;
            scope.spawn(move || {
                let parameter = libc::sched_param { sched_priority: 7 };
                // SAFETY: the parameter is alive during the call, which changes only this thread.
                let result = unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &parameter) };
                tell.send(result == 0).unwrap();
                if result == 0 {
                    drop(mutex.lock());
                }
            });
            if !told.recv().unwrap() {
                eprintln!("skipped: no permission to use real-time priorities");
                return;
            }
            // The waiter eventually blocks in the kernel. If the waiter then lends no priority, this loop
            // never ends.
            while priority(me) != -1 - 7 {
                thread::yield_now();
            }
            drop(guard);
            assert!(priority(me) >= 0, "the lent priority is returned");
        });
    }
}
