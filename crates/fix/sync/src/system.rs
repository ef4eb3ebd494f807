//! The platform of a process on an operating system.

use std::cell::Cell;
use std::sync::OnceLock;
use std::sync::atomic::{Ordering::SeqCst, fence};
use std::time::{Duration, Instant};

use crate::mutant::is_mutant;
use crate::platform::Platform;

/// A wait spins for this many rounds, and yields the CPU in later rounds.
const SPINS: u32 = 64;

/// The number of rounds that a thread spins or yields in a long wait, before it sleeps. The thread spins in
/// the first half of these rounds and yields in the second half. All these rounds together take tens of
/// microseconds, about as long as the shortest sleep.
const SPINS_BEFORE_SLEEP: u32 = 2 * SPINS;

/// The length of the first sleep, which equals the slack that Linux adds to each sleep by default
/// (`PR_SET_TIMERSLACK` in prctl(2)).
const SHORTEST_SLEEP: Duration = Duration::from_micros(50);

/// The length of the longest sleep. With sleeps of this length, a waiter checks its condition a hundred times
/// per second. Each check takes a few microseconds, so all checks together use less than 1 % of a CPU.
const LONGEST_SLEEP: Duration = Duration::from_millis(10);

/// The operating system of this process.
///
/// Its asymmetric fence is Linux's `membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED)`, which interrupts each CPU
/// that runs a thread of the process. The heavy fence takes a few microseconds, and ten or more in a virtual
/// machine. On other systems, and where a seccomp filter forbids the call, both sides execute a full fence.
/// Both sides also execute a full fence in builds for Miri and loom, which do not model membarrier, and in
/// builds with `RUSTFLAGS="--cfg strict_fences"`. Builds for ThreadSanitizer need
/// `RUSTFLAGS="-Zsanitizer=thread --cfg sanitize_thread"` and Cargo's `-Zbuild-std`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct System {
    symmetric: bool,
}

impl System {
    /// The system whose readers are cheapest: one with the asymmetric fence if this process can use that
    /// fence, and otherwise a [symmetric](System::symmetric) system. The first call in the process decides,
    /// and later calls return the same system.
    pub fn detect() -> System {
        static CAN: OnceLock<bool> = OnceLock::new();
        let can = || {
            register_in_child();
            membarrier::register()
        };
        System { symmetric: !*CAN.get_or_init(can) }
    }

    /// A system in which both sides execute a full fence, for threads whose CPUs must not be interrupted,
    /// such as real-time threads.
    pub const fn symmetric() -> System {
        System { symmetric: true }
    }
}

impl Default for System {
    fn default() -> System {
        System::detect()
    }
}

// SAFETY: membarrier(2) guarantees that all running threads of the process pass through a state where all
// their memory accesses are in program order, and a thread that is not running has passed through such a
// state. A system is asymmetric only if the process is registered for membarrier. `heavy` returns only
// after the end of a barrier that began after the call (see `Combiner`). `sleep_while` returns as soon as
// `condition` has returned false.
unsafe impl Platform for System {
    #[inline]
    fn is_symmetric(&self) -> bool {
        self.symmetric
    }

    fn heavy(&self) {
        if self.symmetric || is_mutant!("own_fence") {
            // SeqCst: this fence pairs with the SeqCst fence of `light`. As in Dekker's algorithm, a weaker
            // fence would let each side miss the other side's store.
            fence(SeqCst);
        } else {
            membarrier::barrier(self);
        }
    }

    fn relax(&self, round: u32) {
        if round < SPINS {
            std::hint::spin_loop();
        } else {
            std::thread::yield_now();
        }
    }

    /// Sleeps in growing intervals of at most 10 ms. Each interval is a quarter longer than the previous
    /// interval. So an interval is at most 50 µs plus a quarter of the total time that the thread has slept
    /// so far. The thread notices the end of the wait at most one interval late. The thread wakes up on its
    /// own, so no wake-up can be lost. A waiting thread is in no list of waiters, so the child of a fork has
    /// no such list to repair. A thread with a real-time policy sleeps as well; if it yielded instead, a
    /// reader of lower priority might never get the CPU.
    fn sleep_while(&self, mut condition: impl FnMut() -> bool) {
        for round in 0..SPINS_BEFORE_SLEEP {
            if !condition() {
                return;
            }
            self.relax(round);
        }
        let mut sleep = SHORTEST_SLEEP;
        while condition() {
            std::thread::sleep(sleep);
            sleep = LONGEST_SLEEP.min(sleep * 5 / 4);
        }
    }

    fn now(&self) -> u64 {
        static START: OnceLock<Instant> = OnceLock::new();
        START.get_or_init(Instant::now).elapsed().as_nanos() as u64
    }

    fn thread(&self) -> u64 {
        u64::from(thread())
    }
}

thread_local! {
    /// The calling thread's number, or 0 before the first query.
    static THREAD: Cell<u32> = const { Cell::new(0) };
}

/// The kernel's ID of the calling thread, which is never 0. On systems other than Linux, the function returns
/// the process ID instead.
#[inline]
pub(crate) fn thread() -> u32 {
    match THREAD.get() {
        0 => query(),
        number => number,
    }
}

#[cold]
fn query() -> u32 {
    register_in_child();
    #[cfg(target_os = "linux")]
    // SAFETY: gettid(2) takes no arguments. Thread IDs are positive.
    THREAD.set((unsafe { libc::gettid() }) as u32);
    #[cfg(not(target_os = "linux"))]
    THREAD.set(std::process::id());
    THREAD.get()
}

/// Makes [`forked`] run in the children of forks.
fn register_in_child() {
    #[cfg(all(unix, not(any(loom, miri))))]
    {
        static IN_CHILD: crate::fork::InChild = crate::fork::InChild::new(forked);
        IN_CHILD.register();
    }
}

/// Runs in the child of a fork.
#[cfg(all(unix, not(any(loom, miri))))]
extern "C" fn forked() {
    membarrier::forked();
    THREAD.set(0);
}

#[cfg(all(target_os = "linux", not(any(miri, loom, sanitize_thread, strict_fences))))]
mod membarrier {
    use libc::{c_int, c_long};

    use super::System;
    use crate::combiner::Combiner;

    // linux/membarrier.h
    const QUERY: c_int = 0;
    const PRIVATE_EXPEDITED: c_int = 1 << 3;
    const REGISTER_PRIVATE_EXPEDITED: c_int = 1 << 4;

    static COMBINER: Combiner = Combiner::new();

    fn call(command: c_int) -> c_long {
        // SAFETY: membarrier(2) takes no pointers.
        unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) }
    }

    /// Registers the process for membarrier. Returns false if membarrier is not available. Forked children
    /// inherit the registration; exec(2) drops it.
    pub(super) fn register() -> bool {
        let known = call(QUERY);
        let wanted = c_long::from(PRIVATE_EXPEDITED | REGISTER_PRIVATE_EXPEDITED);
        known >= 0 && known & wanted == wanted && call(REGISTER_PRIVATE_EXPEDITED) == 0
    }

    /// Returns when a barrier that began after this call has ended.
    pub(super) fn barrier(system: &System) {
        COMBINER.barrier(system, execute);
    }

    pub(super) fn forked() {
        COMBINER.forked();
    }

    fn execute() {
        // This call of membarrier(2) fails only if a seccomp filter was installed after the registration.
        // Without the barrier, the caller could free memory that a reader is using.
        if call(PRIVATE_EXPEDITED) != 0 {
            // Abort, because after a panic other threads would wait for this barrier forever.
            eprintln!(
                "knee-sync: membarrier(2) was forbidden after the process had registered for it. Set \
                 the seccomp filter before the first use of knee-sync, or allow membarrier."
            );
            std::process::abort();
        }
    }
}

#[cfg(not(all(target_os = "linux", not(any(miri, loom, sanitize_thread, strict_fences)))))]
mod membarrier {
    pub(super) fn register() -> bool {
        false
    }

    #[cfg(all(unix, not(any(loom, miri))))]
    pub(super) fn forked() {}

    pub(super) fn barrier(_: &super::System) {
        unreachable!("there is no asymmetric system without membarrier(2)");
    }
}
