//! Reading and writing open files.

use crate::testcase::Testcase;

pub(super) const TABLES: &[&[Testcase]] = &[];
