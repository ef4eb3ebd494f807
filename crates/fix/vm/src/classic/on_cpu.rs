//! How a CPU waits.

use knee_sync::Platform;

use crate::cpu::Cpu;
use crate::machine::Machine;

/// The machine's platform on one CPU, which does what others want of it while it waits.
///
/// So whoever waits this way may have locks, as long as those who wait for these do the same: nobody
/// waits for one who waits for an answer of his.
#[derive(Debug)]
pub(super) struct OnCpu<'m, M> {
    machine: &'m M,
    cpu: usize,
}

impl<'m, M: Machine> OnCpu<'m, M> {
    /// To be used by who has the CPU, for as long as that.
    #[inline]
    pub(super) fn of(cpu: &Cpu<'m, M>) -> OnCpu<'m, M> {
        OnCpu { machine: cpu.machine(), cpu: cpu.number() }
    }
}

// SAFETY: it is the machine's; who is equal to us uses that of the same machine.
unsafe impl<M: Machine> Platform for OnCpu<'_, M> {
    fn is_symmetric(&self) -> bool {
        self.machine.epoch().platform().is_symmetric()
    }

    fn heavy(&self) {
        self.machine.epoch().platform().heavy();
    }

    /// Who sleeps between looks, as a lock of knee-sync does, comes by here.
    fn relax(&self, round: u32) {
        self.wait_while(|| false);
        self.machine.epoch().platform().relax(round);
    }

    fn wait_while(&self, condition: impl FnMut() -> bool) {
        // SAFETY: who has made it has the `Cpu`, which stays on its CPU. Locks that we have are waited for this way.
        unsafe { self.machine.wait_while(self.cpu, condition) };
    }

    fn now(&self) -> u64 {
        self.machine.epoch().platform().now()
    }

    fn thread(&self) -> u64 {
        self.machine.epoch().platform().thread()
    }
}
