//! How a CPU waits for a lock.

use knee_sync::Platform;
use knee_vm::{Cpu, Machine};

/// The machine's platform on one CPU, which handles requests of other CPUs while it waits.
///
/// A CPU may hold locks while it waits for other CPUs this way, if the CPUs that wait for these locks also wait this
/// way. Then no CPU waits for a lock whose holder waits for that CPU's answer.
#[derive(Debug)]
pub(super) struct OnCpu<'m, M> {
    machine: &'m M,
    cpu: usize,
}

impl<'m, M: Machine> OnCpu<'m, M> {
    /// Returns the platform for the thread that owns this CPU, while it owns it.
    #[inline]
    pub(super) fn of(cpu: &Cpu<'m, M>) -> OnCpu<'m, M> {
        OnCpu { machine: cpu.machine(), cpu: cpu.number() }
    }
}

// SAFETY: the fences are those of the machine's platform, and equal platforms belong to one machine. `wait_while`
// is `Machine::wait_while`, which promises what the platform's must: it returns only after `condition` was
// false, and does not call it after that. `sleep_while` calls `wait_while`, so a CPU that waits long still handles
// requests.
unsafe impl<M: Machine> Platform for OnCpu<'_, M> {
    fn is_symmetric(&self) -> bool {
        self.machine.epoch().platform().is_symmetric()
    }

    fn heavy(&self) {
        self.machine.epoch().platform().heavy();
    }

    /// A pause between two polls of a wait. The CPU handles requests in each pause.
    fn relax(&self, round: u32) {
        self.wait_while(|| false);
        self.machine.epoch().platform().relax(round);
    }

    fn wait_while(&self, condition: impl FnMut() -> bool) {
        // SAFETY: the thread that made `self` owns the `Cpu`, which stays on its CPU. CPUs that wait for this
        // thread's locks also wait this way, so they answer.
        unsafe { self.machine.wait_while(self.cpu, condition) };
    }

    fn now(&self) -> u64 {
        self.machine.epoch().platform().now()
    }

    fn thread(&self) -> u64 {
        self.machine.epoch().platform().thread()
    }
}
