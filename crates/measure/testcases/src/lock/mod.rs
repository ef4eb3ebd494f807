//! Locks, semaphores and futexes.

mod futex;
mod mutex;
mod record_lock;
mod semaphore;

use knee_run::Testcase;

pub(super) const TABLES: &[&[Testcase]] =
    &[record_lock::TESTCASES, futex::TESTCASES, semaphore::TESTCASES, mutex::TESTCASES];
