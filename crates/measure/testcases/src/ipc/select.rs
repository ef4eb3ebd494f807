//! Asking which of some descriptors are ready, with bit sets.

use std::os::fd::{AsRawFd, OwnedFd};

use knee_run::{During, Family, Need, Outcome, Task, TaskError, Testcase};
use rustix::event::{FdSetElement, Timespec, fd_set_insert, fd_set_num_elements, select};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

pub(super) const TESTCASES: &[Testcase] = &[Testcase {
    name: "select1",
    description: "select() of 2 sockets, neither of them readable",
    needs: &[Need::OpenFiles(14)],
    ..Testcase::new(Family::Ipc, select_two)
}];

/// The original passes 2 as the number of descriptors, which leaves out its sockets, and so
/// measures a call that selects nothing; this one selects both. The kernel walks all bits below
/// the highest descriptor: with many threads, whose sockets lie above those of the other threads,
/// that is a part of the cost.
fn select_two(task: &Task<'_>) -> Outcome {
    let (first, _first_peer) = datagram_pair()?;
    let (second, _second_peer) = datagram_pair()?;
    let (first, second) = (first.as_raw_fd(), second.as_raw_fd());
    let end = first.max(second) + 1;
    let mut readable = vec![FdSetElement::default(); fd_set_num_elements(2, end)];
    task.repeat(|| {
        fd_set_insert(&mut readable, first);
        fd_set_insert(&mut readable, second);
        // The kernel clears the bits of those that are not ready.
        // SAFETY: both descriptors stay open: their owners live in this frame.
        match unsafe { select(end, Some(&mut readable), None, None, Some(&Timespec::default())) } {
            Ok(0) => Ok(()),
            other => Err(unexpected(other)),
        }
    })
}

fn datagram_pair() -> Result<(OwnedFd, OwnedFd), TaskError> {
    socketpair(AddressFamily::UNIX, SocketType::DGRAM, SocketFlags::empty(), None)
        .during("socketpair")
}

#[cold]
fn unexpected(result: rustix::io::Result<i32>) -> TaskError {
    match result.during("select") {
        Ok(_) => TaskError::found("select: a socket that nobody writes to was readable"),
        Err(error) => error,
    }
}
