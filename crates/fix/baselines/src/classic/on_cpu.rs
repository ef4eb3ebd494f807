//! How a CPU waits for a lock.

use knee_sync::Platform;
use knee_vm::{Cpu, Machine};

/// The machine's platform on one CPU. While this CPU waits, it handles requests of other CPUs.
///
/// A CPU may hold locks while it waits for other CPUs through this platform. So every CPU must also wait for
/// these locks through this platform: while it waits, it must handle the requests of a lock's holder.
#[derive(Debug)]
pub(super) struct OnCpu<'m, M> {
    machine: &'m M,
    cpu: usize,
}

impl<'m, M: Machine> OnCpu<'m, M> {
    /// Returns the platform for the thread that owns `cpu`. The platform may be used only while that thread
    /// owns `cpu`.
    #[inline]
    pub(super) fn of(cpu: &Cpu<'m, M>) -> OnCpu<'m, M> {
        OnCpu { machine: cpu.machine(), cpu: cpu.number() }
    }
}

// SAFETY: the fences come from the machine's platform, and no data structure is used with the platforms of
// two machines. `wait_while` calls `Machine::wait_while`, which guarantees what `Platform::wait_while` must
// guarantee: it returns only after `condition` has returned false, and does not call `condition` after that.
// `sleep_while` calls `wait_while`, so a CPU also handles requests during a long wait.
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
        // SAFETY: the thread that made `self` owns the `Cpu`, so the caller is the CPU with this number.
        // While other CPUs wait for this thread's locks, they also call this function, so they handle
        // requests.
        unsafe { self.machine.wait_while(self.cpu, condition) };
    }

    fn now(&self) -> u64 {
        self.machine.epoch().platform().now()
    }

    fn thread(&self) -> u64 {
        self.machine.epoch().platform().thread()
    }
}
