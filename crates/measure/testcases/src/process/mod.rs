//! Processes, signals, the scheduler and the bare system call.

mod build;
mod build_source;
mod exec;
mod signal;
mod syscall;

use knee_run::Testcase;

pub(super) const TABLES: &[&[Testcase]] =
    &[syscall::TESTCASES, signal::TESTCASES, exec::TESTCASES, build::TESTCASES];
