//! Processes, signals, the scheduler and the bare system call.

mod syscall;

use crate::testcase::Testcase;

pub(super) const TABLES: &[&[Testcase]] = &[syscall::TESTCASES];
