//! The crate knee-sync, primitive by primitive, each beside what it is to replace.
//!
//! All tasks use one object in the memory of their process, so these are for threads only: a process
//! would have an object of its own, and a curve that says nothing.

mod conn_lookup;
mod invalidation;
mod reclamation;
mod refcount;
mod rwlock;
mod shared;

use knee_run::Testcase;

pub(super) const TABLES: &[&[Testcase]] = &[
    reclamation::TESTCASES,
    rwlock::TESTCASES,
    refcount::TESTCASES,
    invalidation::TESTCASES,
    conn_lookup::TESTCASES,
];
