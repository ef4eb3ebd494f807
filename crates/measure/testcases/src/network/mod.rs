//! The network stack over loopback.

mod tcp;

use knee_run::Testcase;

pub(super) const TABLES: &[&[Testcase]] = &[tcp::TESTCASES];
