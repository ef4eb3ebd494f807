//! TLB shootdowns for a tree.

use crate::cpu::Cpu;
use crate::machine::ticks::Ticks;
use crate::machine::{Flush, Machine};
use crate::tree::Tree;

impl Tree {
    /// Makes all CPUs of the space flush `pages`. The caller must not hold node locks.
    pub(crate) fn shoot_down<M: Machine>(&self, cpu: &Cpu<'_, M>, pages: Flush) {
        // SAFETY: a `Cpu` stays on its CPU. The caller holds no node locks. A CPU that waits for the fork
        // lock handles shootdowns meanwhile.
        unsafe { cpu.machine().shoot_down(cpu.number(), self.active(), self.number(), pages) };
    }

    /// Makes all CPUs flush everything that was unmapped before the call. The caller must not hold node
    /// locks.
    pub(crate) fn settle<M: Machine>(&self, cpu: &Cpu<'_, M>, ticks: &Ticks) {
        let now = ticks.now();
        self.shoot_down(cpu, Flush::All);
        self.set_settled(now);
    }
}
