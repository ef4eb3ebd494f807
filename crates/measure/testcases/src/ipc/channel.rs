//! Writing to a channel and reading it back in the same task, which never sleeps.

use std::os::fd::AsFd;

use knee_run::{During, Family, Outcome, Task, Testcase, Whole};
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::{read, write};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::pipe::pipe;

pub(super) const TESTCASES: &[Testcase] = &[
    Testcase {
        name: "pipe1",
        description: "write() and read() of a byte on the task's own pipe",
        ..Testcase::new(Family::Ipc, pipe1)
    },
    Testcase {
        name: "unix1",
        description: "write() and read() of a byte on a UNIX stream socket pair",
        ..Testcase::new(Family::Ipc, unix1)
    },
    Testcase {
        name: "eventfd1",
        description: "write() and read() of the task's own eventfd",
        ..Testcase::new(Family::Ipc, eventfd1)
    },
];

fn pipe1(task: &Task<'_>) -> Outcome {
    let (reader, writer) = pipe().during("pipe")?;
    there_and_back(task, writer, reader, [1])
}

fn unix1(task: &Task<'_>) -> Outcome {
    let stream = SocketType::STREAM;
    let (reader, writer) =
        socketpair(AddressFamily::UNIX, stream, SocketFlags::empty(), None).during("socketpair")?;
    there_and_back(task, writer, reader, [1])
}

fn eventfd1(task: &Task<'_>) -> Outcome {
    let counter = eventfd(0, EventfdFlags::empty()).during("eventfd")?;
    there_and_back(task, &counter, &counter, 1u64.to_ne_bytes())
}

fn there_and_back<const N: usize>(
    task: &Task<'_>,
    writer: impl AsFd,
    reader: impl AsFd,
    mut bytes: [u8; N],
) -> Outcome {
    task.repeat(|| {
        write(&writer, &bytes).whole(N, "write")?;
        read(&reader, &mut bytes).whole(N, "read")
    })
}
