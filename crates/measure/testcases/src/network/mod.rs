//! The network stack over loopback.

mod tcp;

use knee_run::testcase::Testcase;

pub(super) const TABLES: &[&[Testcase]] = &[tcp::TESTCASES];
