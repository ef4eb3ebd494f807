//! The network stack over loopback.

mod tcp;

use crate::testcase::Testcase;

pub(super) const TABLES: &[&[Testcase]] = &[tcp::TESTCASES];
