//! What the algorithms need of the system that they run on.

use crate::mutant::is_mutant;
use crate::primitive::{compiler_fence, fence};
use core::sync::atomic::Ordering::SeqCst;

/// A system: an operating system's process, or a kernel.
///
/// The pair [`light`](Platform::light) and [`heavy`](Platform::heavy) is an *asymmetric fence*
/// (Dice, Huang and Yang, "Asymmetric Dekker Synchronization", 2001; membarrier(2); P1202R5 of the
/// C++ committee): together they order as two sequentially consistent fences do, but one side pays
/// for both. Let a reader execute a store `A`, `light`, a load `B`, and a reclaimer a store `C`,
/// `heavy`, a load `D`: either the reader's `B` sees `C`, or the reclaimer's `D` sees `A`.
///
/// # Safety
/// `heavy` returns only when the caller and every thread that may execute `light` of an equal platform
/// has executed a full fence between the call of `heavy` and its return, or executes one before its
/// next instruction. Where [`is_symmetric`](Platform::is_symmetric) is true, a full fence of the caller
/// is enough. The answer of `is_symmetric` never changes.
pub unsafe trait Platform: Sync {
    /// Whether both sides execute a full fence, because the system has nothing better or the user
    /// wants no interrupts on other CPUs.
    fn is_symmetric(&self) -> bool;

    /// The fence of those who wait and reclaim: rare, and as dear as an interrupt on each CPU.
    fn heavy(&self);

    /// A moment of a wait, of which this is the `round`-th since it began: spins first, and lets
    /// others run later.
    fn relax(&self, round: u32);

    /// Waits while `condition` is true.
    fn wait_while(&self, mut condition: impl FnMut() -> bool) {
        let mut round = 0;
        while condition() {
            self.relax(round);
            round = round.saturating_add(1);
        }
    }

    /// Nanoseconds since any moment in the past. It never goes back.
    fn now(&self) -> u64;

    /// The calling thread, as an operator knows it.
    fn thread(&self) -> u64;

    /// The fence of readers. Where the platform is asymmetric it costs no instruction.
    #[inline]
    fn light(&self) {
        light(self.is_symmetric());
    }
}

/// The fence of readers, where they keep the answer of [`Platform::is_symmetric`].
#[inline]
pub(crate) fn light(is_symmetric: bool) {
    if is_symmetric && !is_mutant!("no_light_fence") {
        fence(SeqCst);
    } else {
        // LLVM moves no access to memory across it, and the CPU's own order is `heavy`'s business.
        // The language has no word for that yet (rust-lang/unsafe-code-guidelines issue 362).
        compiler_fence(SeqCst);
    }
}
