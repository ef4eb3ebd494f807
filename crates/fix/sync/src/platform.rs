//! What the algorithms require of the system below them.

use crate::mutant::is_mutant;
use crate::primitive::{compiler_fence, fence};
use core::sync::atomic::Ordering::SeqCst;

/// A system: a process of an operating system, or a kernel.
///
/// The pair [`light`](Platform::light) and [`heavy`](Platform::heavy) is an *asymmetric fence* (Dice, Huang
/// and Yang, "Asymmetric Dekker Synchronization", 2001; membarrier(2); P1202R5 of the C++ committee):
/// together they order as two sequentially consistent fences do, but one side pays for both. Let a reader
/// execute a store `A`, `light` and a load `B`, and a reclaimer a store `C`, `heavy` and a load `D`. Then
/// either the reader's `B` sees `C`, or the reclaimer's `D` sees `A`.
///
/// # Safety
/// Unsafe code relies on the fences and on the waits:
///
/// * [`heavy`](Platform::heavy) returns only when the caller and every thread that may execute `light` of
///   an equal platform has executed a full fence between the call of `heavy` and its return, or executes
///   one before its next instruction. Where [`is_symmetric`](Platform::is_symmetric) is true, a full
///   fence of the caller is enough. Platforms are equal if one data structure is used through both.
/// * [`is_symmetric`](Platform::is_symmetric) always returns the same value, for all equal platforms.
/// * [`light`](Platform::light) is at least as strong as its default: a full fence where `is_symmetric` is
///   true, and otherwise a compiler fence.
/// * [`wait_while`](Platform::wait_while) and [`sleep_while`](Platform::sleep_while) return only after
///   `condition` has returned false, and do not call it after that: it may have taken a lock. They call it on
///   the calling thread. They may unwind instead of returning; then locks may stay taken forever.
///
/// Safety does not depend on the results of `now` and `thread`, nor on how long `relax` takes.
///
/// `relax`, `wait_while` and `sleep_while` are called in the middle of operations of this crate. If they run
/// other work on the calling thread, such as the handlers of pending interrupts, that work must follow the
/// rules of interrupt and signal handlers:
///
/// * It may enter and leave sections of [`epoch`](crate::epoch), with a handle that the thread or CPU has
///   registered before.
/// * It must use nothing else of this crate with the interrupted thread's handles: it must not retire,
///   defer, reclaim, register, lock or count.
pub unsafe trait Platform: Sync {
    /// Whether both sides execute a full fence, because the system has no asymmetric fence or because its
    /// user wants no interrupts on other CPUs.
    fn is_symmetric(&self) -> bool;

    /// The fence of threads that reclaim or wait. It is rare, and may cost an interrupt on each CPU.
    fn heavy(&self);

    /// Pauses in round `round` of a wait: spins in early rounds, and yields to other threads in later
    /// ones.
    fn relax(&self, round: u32);

    /// Waits while `condition` is true. Most of these waits are short: another thread releases a lock or
    /// flushes a cache.
    ///
    /// The default calls [`relax`](Platform::relax) between two calls of `condition`. A platform whose
    /// threads must serve others while they wait, as a CPU must handle interrupts, does so here.
    fn wait_while(&self, mut condition: impl FnMut() -> bool) {
        let mut round = 0;
        while condition() {
            self.relax(round);
            round = round.saturating_add(1);
        }
    }

    /// Waits while `condition` is true, possibly for as long as a section or a deferred call takes. No
    /// thread wakes the waiter, because a reader would have to check for waiters each time it leaves. A
    /// platform that can sleep sleeps for a limited time and then calls `condition` again.
    ///
    /// The default is [`wait_while`](Platform::wait_while).
    fn sleep_while(&self, condition: impl FnMut() -> bool) {
        self.wait_while(condition);
    }

    /// Nanoseconds since a fixed point in the past. It never goes back.
    fn now(&self) -> u64;

    /// The number of the calling thread, by which reports such as [`Stall`](crate::epoch::Stall) name it.
    fn thread(&self) -> u64;

    /// The fence of readers. On an asymmetric platform it costs no instruction.
    #[inline]
    fn light(&self) {
        light(self.is_symmetric());
    }
}

/// The fence of readers that keep a copy of [`Platform::is_symmetric`]'s result.
#[inline]
pub(crate) fn light(is_symmetric: bool) {
    if is_symmetric && !is_mutant!("no_light_fence") {
        // SeqCst: the other half is in `heavy`.
        fence(SeqCst);
    } else {
        // LLVM moves no memory access across it, and `heavy` takes care of the CPU's reordering. The
        // language has no term for such fences yet (rust-lang/unsafe-code-guidelines issue 362).
        compiler_fence(SeqCst);
    }
}
