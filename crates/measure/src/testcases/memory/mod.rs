//! Address spaces: maps, page faults, TLB shootdown, the heap.

use crate::testcase::Testcase;

pub(super) const TABLES: &[&[Testcase]] = &[];
