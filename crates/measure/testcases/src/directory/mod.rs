//! Names: opening, linking and looking up files.

mod dup;
mod fstatat;
mod open;
mod place;
mod unlink;

use knee_run::Testcase;

pub(super) const TABLES: &[&[Testcase]] =
    &[open::TESTCASES, unlink::TESTCASES, fstatat::TESTCASES, dup::TESTCASES];
