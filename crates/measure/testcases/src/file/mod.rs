//! Reading and writing open files.

mod fallocate;
mod fstat;
mod lseek;
mod pread;
mod pwrite;
mod read;
mod readseek;
pub(super) mod scratch;
mod write;
mod writeseek;

use knee_run::Testcase;

pub(super) const TABLES: &[&[Testcase]] = &[
    read::TESTCASES,
    pread::TESTCASES,
    readseek::TESTCASES,
    write::TESTCASES,
    pwrite::TESTCASES,
    writeseek::TESTCASES,
    lseek::TESTCASES,
    fallocate::TESTCASES,
    fstat::TESTCASES,
];
