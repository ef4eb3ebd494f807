//! The primitives of the crate knee-sync, each beside the primitive that it replaces.
//!
//! All tasks use one object in the memory of their process, so these testcases are for threads
//! only. Processes would each have their own object and share nothing.

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
