//! What the algorithms require of the system below them.

use crate::mutant::is_mutant;
use crate::primitive::{compiler_fence, fence};
use core::sync::atomic::Ordering::SeqCst;

/// The system that the crate runs on: a process of an operating system, or a kernel.
///
/// The pair [`light`](Platform::light) and [`heavy`](Platform::heavy) is an *asymmetric fence* (Dice, Huang
/// and Yang, "Asymmetric Dekker Synchronization", 2001; membarrier(2); P1202R5 of the C++ committee).
/// Together, the two fences order memory accesses as two sequentially consistent fences do, but the caller of
/// `heavy` pays for both. Suppose a reader executes a store `A`, `light` and a load `B`, and a reclaimer
/// executes a store `C`, `heavy` and a load `D`. Then `B` sees `C`, or `D` sees `A`, or both.
///
/// # Safety
/// Unsafe code relies on the fences and on the waits:
///
/// * When [`heavy`](Platform::heavy) returns, the caller has executed a full fence since the call. Every
///   other thread that may execute `light` of an equal platform has also executed a full fence since the
///   call, or will execute one before its next instruction. Where [`is_symmetric`](Platform::is_symmetric) is
///   true, `light` is a full fence itself, so `heavy` needs to execute a full fence only on the calling
///   thread. Two platforms count as equal if the same data structure is used with both.
/// * [`is_symmetric`](Platform::is_symmetric) returns the same value at every call, on all equal platforms.
/// * [`light`](Platform::light) is at least as strong as its default: a full fence where `is_symmetric` is
///   true, and otherwise a compiler fence.
/// * [`wait_while`](Platform::wait_while) and [`sleep_while`](Platform::sleep_while) return only after
///   `condition` has returned false, and do not call `condition` again after that, because the last call may
///   have taken a lock. Both functions call `condition` on the calling thread. Both functions may unwind
///   instead of returning, but then locks may stay taken forever.
///
/// Safety does not depend on the results of `now` and `thread`, nor on how long `relax` takes.
///
/// `relax`, `wait_while` and `sleep_while` are called in the middle of operations of this crate. If one of
/// these functions runs other work on the calling thread, such as the handlers of pending interrupts, the
/// other work must follow the rules for interrupt and signal handlers:
///
/// * The other work may enter and leave sections of [`epoch`](crate::epoch), with a handle that the thread or
///   CPU has registered before.
/// * The other work must use nothing else in this crate with the interrupted thread's handles: it must not
///   retire, defer, reclaim, register, lock, or take or drop references.
pub unsafe trait Platform: Sync {
    /// Whether both sides execute a full fence, because the system has no asymmetric fence or because other
    /// CPUs must not be interrupted.
    fn is_symmetric(&self) -> bool;

    /// The fence of threads that reclaim or wait. Heavy fences are rare, so even a fence that interrupts each
    /// CPU is cheap enough.
    fn heavy(&self);

    /// Pauses in round `round` of a wait: spins in early rounds, and yields to other threads in later
    /// rounds.
    fn relax(&self, round: u32);

    /// Waits while `condition` is true. Most of these waits are short: they end when another thread
    /// releases a lock or flushes a cache.
    ///
    /// The default calls [`relax`](Platform::relax) between two calls of `condition`. If waiting threads
    /// have other duties (a CPU must handle interrupts, for example), the platform overrides this function.
    fn wait_while(&self, mut condition: impl FnMut() -> bool) {
        let mut round = 0;
        while condition() {
            self.relax(round);
            round = round.saturating_add(1);
        }
    }

    /// Waits while `condition` is true, possibly for as long as a section or a deferred call takes. No thread
    /// wakes the waiter: to do so, a reader would have to check for waiters at the end of each section. A
    /// platform that can sleep sleeps for a limited time and then calls `condition` again.
    ///
    /// The default is [`wait_while`](Platform::wait_while).
    fn sleep_while(&self, condition: impl FnMut() -> bool) {
        self.wait_while(condition);
    }

    /// Nanoseconds since a fixed point in the past. This time never goes backward.
    fn now(&self) -> u64;

    /// The number of the calling thread, which identifies it in reports such as
    /// [`Stall`](crate::epoch::Stall).
    fn thread(&self) -> u64;

    /// The fence of readers. On an asymmetric platform, this fence costs no instruction.
    #[inline]
    fn light(&self) {
        light(self.is_symmetric());
    }
}

/// [`Platform::light`] for readers that keep a copy of [`Platform::is_symmetric`]'s result.
#[inline]
pub(crate) fn light(is_symmetric: bool) {
    if is_symmetric && !is_mutant!("no_light_fence") {
        // SeqCst: this fence pairs with the full fence in `heavy`.
        fence(SeqCst);
    } else {
        // LLVM moves no memory access across this fence, and `heavy` takes care of reordering by the CPU.
        // Rust's memory model does not define such fences yet (rust-lang/unsafe-code-guidelines issue 362).
        compiler_fence(SeqCst);
    }
}
