//! Pipes, sockets and waiting for them on one machine.

use crate::testcase::Testcase;

pub(super) const TABLES: &[&[Testcase]] = &[];
