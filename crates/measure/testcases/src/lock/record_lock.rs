//! Record locks of `fcntl`. They belong to a process, so the threads of one never wait for each
//! other, also on the same file; what they contend for is the kernel's list of the locks.

use std::os::fd::AsRawFd;

use knee_run::{Family, Outcome, Task, TaskError, Testcase, check};
use rustix::fs::OFlags;

use crate::choices::{OWN_FILE, SAME_FILE};
use crate::file::scratch;

const LOCK: Testcase =
    Testcase { prepare: scratch::share_block, ..Testcase::new(Family::Lock, lock) };

pub(super) const TESTCASES: &[Testcase] = &[
    Testcase {
        name: "lock1",
        description: "fcntl(F_SETLKW): write-locks a byte of a file and unlocks it; counts both",
        parameters: &[&[OWN_FILE, SAME_FILE]],
        ..LOCK
    },
    Testcase {
        name: "lock2",
        description: "lock1@file=same: all tasks lock and unlock the same byte of one file; \
            counts both",
        parameters: &[&[SAME_FILE]],
        ..LOCK
    },
];

fn lock(task: &Task<'_>) -> Outcome {
    let file = scratch::open(task, 0, OFlags::empty())?;
    let fd = file.as_raw_fd();
    let set = |kind: libc::c_int| -> Result<(), TaskError> {
        let lock = libc::flock {
            l_type: kind as libc::c_short,
            l_whence: libc::SEEK_SET as libc::c_short,
            l_start: 0,
            l_len: 1,
            l_pid: 0,
        };
        // SAFETY: F_SETLKW reads a flock through its third argument, which lives until the end of
        // this closure.
        check(unsafe { libc::fcntl(fd, libc::F_SETLKW, &raw const lock) }, "fcntl(F_SETLKW)")?;
        Ok(())
    };
    let mut count = task.start();
    loop {
        set(libc::F_WRLCK)?;
        set(libc::F_UNLCK)?;
        count.add(2);
    }
}
