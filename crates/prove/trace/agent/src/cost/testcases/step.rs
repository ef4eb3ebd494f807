//! Steps that testcases have in common.

use rustix::io::{Errno, Result};

use crate::cost::own::{Operation, Own};

pub(super) type Step = knee_operations::Step<Own, Errno>;

/// Returns a testcase on the task's own one-page file, which the task has open.
pub(super) const fn on_own_file(name: &'static str, about: &'static str, call: Step) -> Operation {
    Operation { set_up: Own::open_own, ..Operation::plain(name, about, call) }
}

/// Returns a testcase on the file that all tasks share. Each task opens this file itself.
pub(super) const fn on_shared_file(
    name: &'static str,
    about: &'static str,
    call: Step,
) -> Operation {
    Operation { set_up: Own::open_shared, ..Operation::plain(name, about, call) }
}

/// Converts the result of a libc function that makes a system call. The result is -1 if the call failed.
pub(super) fn done(result: libc::c_long) -> Result<()> {
    match result {
        -1 => {
            let errno = std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO);
            Err(Errno::from_raw_os_error(errno))
        }
        _ => Ok(()),
    }
}
