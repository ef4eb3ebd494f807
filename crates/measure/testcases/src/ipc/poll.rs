//! Asking which of some descriptors are ready.
//!
//! The files are regular ones, which always are. The array of questions is written anew in each
//! iteration, as a program does whose set of descriptors changes and as will-it-scale does: with
//! 128 of them it is a visible part of the time.

use std::array::from_fn;
use std::os::fd::{AsRawFd, OwnedFd};

use knee_run::{Family, Need, Outcome, Task, TaskError, Testcase, check};
use rustix::fs::OFlags;

use crate::file::scratch;

pub(super) const TESTCASES: &[Testcase] = &[
    Testcase {
        name: "poll1",
        description: "poll() of the task's own file",
        ..Testcase::new(Family::Ipc, poll::<1>)
    },
    Testcase {
        name: "poll2",
        description: "poll() of 128 files of the task",
        needs: &[Need::OpenFiles(138)],
        ..Testcase::new(Family::Ipc, poll::<128>)
    },
    Testcase {
        name: "poll3",
        description: "poll() of 32 files of the task",
        needs: &[Need::OpenFiles(40)],
        ..Testcase::new(Family::Ipc, poll::<32>)
    },
];

fn poll<const N: usize>(task: &Task<'_>) -> Outcome {
    let mut files = Vec::with_capacity(N);
    for _ in 0..N {
        files.push(scratch::own(task, 0, OFlags::empty())?);
    }
    let fds: [i32; N] = from_fn(|i| OwnedFd::as_raw_fd(&files[i]));
    task.repeat(|| {
        let mut questions: [libc::pollfd; N] =
            from_fn(|i| libc::pollfd { fd: fds[i], events: libc::POLLOUT, revents: 0 });
        // SAFETY: the pointer and the length are those of one array. Not rustix: its poll is
        // ppoll, which also copies a timeout in and out.
        let ready = unsafe { libc::poll(questions.as_mut_ptr(), N as libc::nfds_t, 0) };
        match check(ready, "poll")? == N as i32 {
            true => Ok(()),
            false => Err(TaskError::found("poll: a regular file was not ready")),
        }
    })
}
