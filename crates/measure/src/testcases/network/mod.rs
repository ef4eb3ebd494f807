//! The network stack over loopback.

use crate::testcase::Testcase;

pub(super) const TABLES: &[&[Testcase]] = &[];
