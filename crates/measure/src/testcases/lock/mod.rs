//! Locks, semaphores and futexes.

use crate::testcase::Testcase;

pub(super) const TABLES: &[&[Testcase]] = &[];
