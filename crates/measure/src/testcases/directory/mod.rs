//! Names: opening, linking and looking up files.

use crate::testcase::Testcase;

pub(super) const TABLES: &[&[Testcase]] = &[];
