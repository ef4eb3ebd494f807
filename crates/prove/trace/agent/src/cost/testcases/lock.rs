//! Record locks and futexes.

use std::os::fd::AsRawFd;

use rustix::io::{Errno, Result};
use rustix::thread::futex::{self, Flags};

use super::step::{done, on_own_file, on_shared_file};
use crate::cost::own::{Operation, Own};

/// Locks the first byte of the task's file for writing, and unlocks it.
fn lock_and_unlock(own: &mut Own) -> Result<()> {
    let file = own.file()?.as_raw_fd();
    [libc::F_WRLCK, libc::F_UNLCK].into_iter().try_for_each(|kind| {
        let lock = libc::flock {
            l_type: kind as libc::c_short,
            l_whence: libc::SEEK_SET as libc::c_short,
            l_start: 0,
            l_len: 1,
            l_pid: 0,
        };
        // SAFETY: F_SETLKW reads the `flock` to which the third argument points, and `lock` outlives the
        // call.
        done(unsafe { libc::fcntl(file, libc::F_SETLKW, &raw const lock) }.into())
    })
}

fn wake(own: &mut Own, flags: Flags) -> Result<()> {
    futex::wake(own.futex(), flags, 1).map(drop)
}

/// Calls FUTEX_WAIT with a value that the futex does not have, so the call returns at once.
fn wait(own: &mut Own, flags: Flags) -> Result<()> {
    match futex::wait(own.futex(), flags, 1, None) {
        Err(Errno::AGAIN) => Ok(()),
        other => other,
    }
}

pub(super) const TESTCASES: &[Operation] = &[
    Operation {
        iterations: 2,
        ..on_own_file("lock1", "fcntl(F_SETLKW): locks a byte and unlocks it", lock_and_unlock)
    },
    Operation {
        iterations: 2,
        ..on_shared_file(
            "lock2",
            "fcntl(F_SETLKW): locks a byte of a file that all tasks share, and unlocks it",
            lock_and_unlock,
        )
    },
    Operation::plain("futex1", "futex(FUTEX_WAKE) of a futex that nobody waits for", |own| {
        wake(own, Flags::empty())
    }),
    Operation::plain("futex2", "futex(FUTEX_WAIT) on a futex whose value has changed", |own| {
        wait(own, Flags::empty())
    }),
    Operation::plain(
        "futex3",
        "futex(FUTEX_WAKE_PRIVATE) of a futex that nobody waits for",
        |own| wake(own, Flags::PRIVATE),
    ),
    Operation::plain(
        "futex4",
        "futex(FUTEX_WAIT_PRIVATE) on a futex whose value has changed",
        |own| wait(own, Flags::PRIVATE),
    ),
];
