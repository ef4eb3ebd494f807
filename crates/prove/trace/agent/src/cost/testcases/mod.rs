//! Single iterations of testcases of `knee list`, with the system calls and page faults of the testcases'
//! loops.
//!
//! Three kinds of testcases are missing: those that hardly enter the kernel (the figures cover only kernel
//! code), those with a helper task (an operation must not sleep), and those that start programs.

mod directory;
mod file;
mod ipc;
mod lock;
mod memory;
mod process;
mod step;

use super::own::Operation;

/// The testcases.
pub(super) const TABLES: &[&[Operation]] = &[
    process::TESTCASES,
    directory::TESTCASES,
    file::TESTCASES,
    lock::TESTCASES,
    ipc::TESTCASES,
    memory::TESTCASES,
];
