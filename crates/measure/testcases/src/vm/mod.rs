//! The crate knee-vm with the operations of the family `memory`. The testcase `vm_X` does in one
//! iteration what `X` does with the running kernel.
//!
//! The machine is hosted, and each task is one of its CPUs: page tables are memory, the MMU is a
//! function, an interrupt is a message. A rate is therefore that of the code that maps, faults and
//! flushes, without system calls, traps and interrupt latency, and does not predict the rate of a
//! kernel. The shapes of curves are comparable, and so are strategies with each other.
//!
//! All tasks use one space in the memory of their process, as threads do.

mod brk;
mod choices;
mod churn;
mod disjoint;
mod fork;
mod hosted;
mod map;
mod map_and_fault;
mod memory;
mod older;
mod page_fault;
mod protect;
mod tlb_flush;
mod user;

use knee_run::Testcase;

pub(super) const TABLES: &[&[Testcase]] = &[
    brk::TESTCASES,
    map::TESTCASES,
    page_fault::TESTCASES,
    map_and_fault::TESTCASES,
    tlb_flush::TESTCASES,
    churn::TESTCASES,
    disjoint::TESTCASES,
    protect::TESTCASES,
    fork::TESTCASES,
];

#[cfg(test)]
mod tests {
    use knee_run::Family;

    use super::*;
    use crate::CATALOGUE;

    #[test]
    fn each_vm_testcase_counts_what_its_kernel_counterpart_counts() {
        for testcase in TABLES.iter().copied().flatten() {
            let name = testcase.name.strip_prefix("vm_").expect(testcase.name);
            let of_kernel = CATALOGUE.find(name).expect(testcase.name);
            assert_eq!(of_kernel.family, Family::Memory, "{name}");
            assert_eq!(testcase.unit, of_kernel.unit, "{name}");
        }
    }
}
