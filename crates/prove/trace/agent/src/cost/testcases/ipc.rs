//! Channels through which a task sends messages to itself, and the system calls poll and select.

use std::array::from_fn;
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::event::{
    EventfdFlags, FdSetElement, Timespec, eventfd, fd_set_insert, fd_set_num_elements, select,
};
use rustix::io::{self, Errno, Result};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::pipe;

use super::step::{Step, done};
use crate::cost::own::{Operation, Own};

/// Returns a testcase that sends bytes through a channel of the task and receives them.
const fn on_channel(name: &'static str, about: &'static str, set_up: Step) -> Operation {
    Operation { set_up, ..Operation::plain(name, about, there_and_back) }
}

fn there_and_back(own: &mut Own) -> Result<()> {
    let (reader, writer) = own.ends.as_ref().ok_or(Errno::BADF)?;
    let mut number = 1u64.to_ne_bytes();
    let message = &mut number[..own.message];
    io::write(writer, message)?;
    io::read(reader, message).map(drop)
}

/// Returns a testcase that polls `N` files of the task.
const fn on_files<const N: usize>(name: &'static str, about: &'static str) -> Operation {
    let set_up: Step = |own| (0..N).try_for_each(|_| own.add_file());
    Operation { set_up, ..Operation::plain(name, about, poll::<N>) }
}

fn poll<const N: usize>(own: &mut Own) -> Result<()> {
    let files: &[OwnedFd; N] = own.files.as_slice().try_into().map_err(|_| Errno::BADF)?;
    let mut questions: [libc::pollfd; N] =
        from_fn(|nr| libc::pollfd { fd: files[nr].as_raw_fd(), events: libc::POLLOUT, revents: 0 });
    // SAFETY: the pointer and the length belong to the same array. The `poll` of rustix would make the system
    // call ppoll instead.
    done(unsafe { libc::poll(questions.as_mut_ptr(), N as libc::nfds_t, 0) }.into())
}

/// Opens two socket pairs.
fn two_sockets(own: &mut Own) -> Result<()> {
    for _ in 0..2 {
        let (family, kind) = (AddressFamily::UNIX, SocketType::DGRAM);
        let (first, second) = socketpair(family, kind, SocketFlags::empty(), None)?;
        own.files.extend([first, second]);
    }
    Ok(())
}

/// Calls select on the first socket of each pair. Fails if one of them is readable.
fn select_two(own: &mut Own) -> Result<()> {
    let [first, _, second, _] = own.files.as_slice() else { return Err(Errno::BADF) };
    let (first, second) = (first.as_raw_fd(), second.as_raw_fd());
    let end = first.max(second) + 1;
    let mut readable = [FdSetElement::default(); 16];
    let readable = readable.get_mut(..fd_set_num_elements(2, end)).ok_or(Errno::MFILE)?;
    fd_set_insert(readable, first);
    fd_set_insert(readable, second);
    // SAFETY: both descriptors stay open during the call.
    match unsafe { select(end, Some(readable), None, None, Some(&Timespec::default()))? } {
        0 => Ok(()),
        _ => Err(Errno::IO),
    }
}

pub(super) const TESTCASES: &[Operation] = &[
    on_channel("pipe1", "write() and read() of a byte on the task's own pipe", |own| {
        own.ends = Some(pipe::pipe()?);
        Ok(())
    }),
    on_channel("unix1", "write() and read() of a byte on a UNIX stream socket pair", |own| {
        let (family, kind) = (AddressFamily::UNIX, SocketType::STREAM);
        own.ends = Some(socketpair(family, kind, SocketFlags::empty(), None)?);
        Ok(())
    }),
    on_channel("eventfd1", "write() and read() of the task's own eventfd", |own| {
        let counter = eventfd(0, EventfdFlags::empty())?;
        own.ends = Some((io::dup(&counter)?, counter));
        own.message = 8;
        Ok(())
    }),
    on_files::<1>("poll1", "poll() of the task's own file"),
    on_files::<128>("poll2", "poll() of 128 files of the task"),
    on_files::<32>("poll3", "poll() of 32 files of the task"),
    Operation {
        set_up: two_sockets,
        ..Operation::plain("select1", "select() of 2 sockets, neither of them readable", select_two)
    },
];
