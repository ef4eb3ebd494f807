//! Address spaces: maps, page faults, TLB shootdown, the heap.

mod brk;
mod churn;
mod disjoint;
mod malloc;
mod map;
mod map_and_fault;
mod page_fault;
mod region;
mod tlb_flush;
mod zero_fill;

use crate::testcase::Testcase;

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
];
