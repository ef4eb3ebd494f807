//! The crate knee-vm, with what the family `memory` does with the running kernel: a testcase of the
//! same name after `vm_`, and what one iteration does is the same.
//!
//! The machine is a hosted one, of which each task is a CPU: page tables are memory, the MMU is a
//! function, an interrupt is a message. So a rate is that of the code that maps, faults and flushes, without
//! system calls, traps and the latency of interrupts, and is no figure of what a kernel would reach. What
//! compares is the shape of curves, and strategies with each other.
//!
//! All tasks use one space in the memory of their process, as threads do.

mod brk;
mod churn;
mod disjoint;
mod fork;
mod map;
mod map_and_fault;
mod memory;
mod older;
mod page_fault;
mod protect;
mod tlb_flush;
mod user;

use crate::design::Design;
use crate::task::{Outcome, Task};
use crate::testcase::{Family, Need, Testcase, Variant};

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

/// A testcase whose tasks are the CPUs of one machine.
const fn hosted(run: fn(&Task<'_>) -> Outcome) -> Testcase {
    Testcase { needs: &[Need::Threads], ..Testcase::new(Family::Vm, run) }
}

/// One that older designs have as well.
const fn of_any_design(run: fn(&Task<'_>) -> Outcome) -> Testcase {
    Testcase { variants: DESIGNS, ..hosted(run) }
}

/// Those that are listed; they can be combined.
const DESIGNS: &[Variant] = DESIGNS_AND_LAZY.split_last().expect("there are some").1;

/// The same, and knee-vm's own with lazy shootdown: of testcases whose CPUs tick.
const DESIGNS_AND_LAZY: &[Variant] = &{
    let mut all = [Variant::OwnDesign; 2 + Design::SINGLES];
    let mut nr = 0;
    while nr < Design::SINGLES {
        all[1 + nr] = Variant::Design(Design::single(nr));
        nr += 1;
    }
    all[1 + nr] = Variant::LazyShootdown;
    all
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testcases::find;

    #[test]
    fn each_counts_what_the_testcase_of_that_name_counts_with_the_kernel() {
        for testcase in TABLES.iter().copied().flatten() {
            let name = testcase.name.strip_prefix("vm_").expect(testcase.name);
            let of_kernel = find(name).expect(testcase.name);
            assert_eq!(of_kernel.family, Family::Memory, "{name}");
            assert_eq!(testcase.unit, of_kernel.unit, "{name}");
        }
    }
}
