//! Address spaces: maps, page faults, TLB shootdown, the heap.

mod brk;
pub(super) mod churn;
pub(super) mod disjoint;
pub(super) mod fork;
mod malloc;
mod map;
mod map_and_fault;
pub(super) mod page_fault;
mod protect;
pub(super) mod region;
pub(super) mod tlb_flush;
mod zero_fill;

use knee_run::Testcase;

pub(super) const TABLES: &[&[Testcase]] = &[
    brk::TESTCASES,
    malloc::TESTCASES,
    map::TESTCASES,
    page_fault::TESTCASES,
    map_and_fault::TESTCASES,
    zero_fill::TESTCASES,
    tlb_flush::TESTCASES,
    churn::TESTCASES,
    disjoint::TESTCASES,
    protect::TESTCASES,
    fork::TESTCASES,
];
