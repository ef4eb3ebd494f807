//! One TCP connection per task, over 127.0.0.1 to a helper.

use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};

use knee_run::{
    During, Family, NEXT_CPU, Need, Outcome, SAME_CPU, Task, TaskError, Testcase, Unit, Whole,
};
use rustix::io::{read, write};

/// Bytes of one write of the bulk transfer.
const BULK: usize = 64 << 10;

const TCP: Testcase = Testcase {
    needs: &[Need::Loopback],
    parameters: &[&[NEXT_CPU, SAME_CPU]],
    has_helpers: true,
    ..Testcase::new(Family::Network, request_response)
};

pub(super) const TESTCASES: &[Testcase] = &[
    Testcase {
        name: "tcp_loopback1",
        description: "writes 64 KiB to a TCP connection over 127.0.0.1, from which a helper reads",
        unit: Unit { name: "iterations", steps: 1, bytes: BULK as u64 },
        run: bulk,
        ..TCP
    },
    Testcase {
        name: "tcp_loopback2",
        description: "sends a byte over TCP on 127.0.0.1 to a helper, which sends it back",
        ..TCP
    },
];

fn bulk(task: &Task<'_>) -> Outcome {
    let (here, there) = connection()?;
    task.spawn_helper(move || {
        let mut buffer = vec![0; BULK];
        loop {
            match read(&there, &mut *buffer).during("read from the task")? {
                0 => return Err(TaskError::found("the task has closed the connection")),
                _ => continue,
            }
        }
    })?;
    let buffer = vec![0; BULK];
    task.repeat(|| write(&here, &buffer).whole(BULK, "write to the helper"))
}

fn request_response(task: &Task<'_>) -> Outcome {
    let (here, there) = connection()?;
    task.spawn_helper(move || {
        let mut byte = [0];
        loop {
            read(&there, &mut byte).whole(1, "read from the task")?;
            write(&there, &byte).whole(1, "write to the task")?;
        }
    })?;
    let mut byte = [1];
    task.repeat(|| {
        write(&here, &byte).whole(1, "write to the helper")?;
        read(&here, &mut byte).whole(1, "read from the helper")
    })
}

/// Both ends of a connection that sends small data at once.
fn connection() -> Result<(TcpStream, TcpStream), TaskError> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).during("bind to 127.0.0.1")?;
    let address = listener.local_addr().during("getsockname")?;
    // The kernel completes it into the queue of the listener.
    let here = TcpStream::connect(address).during("connect to 127.0.0.1")?;
    let there = accept_from(&listener, here.local_addr().during("getsockname")?)?;
    for end in [&here, &there] {
        end.set_nodelay(true).during("set TCP_NODELAY")?;
    }
    Ok((here, there))
}

/// The connection that comes from this address. Everybody on this machine can connect to the listener.
fn accept_from(listener: &TcpListener, address: SocketAddr) -> Result<TcpStream, TaskError> {
    loop {
        let (there, from) = listener.accept().during("accept")?;
        if from == address {
            return Ok(there);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_of_another_program_is_not_accepted() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let connect = || TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (_other, own) = (connect(), connect());
        let address = own.local_addr().unwrap();
        assert_eq!(accept_from(&listener, address).unwrap().peer_addr().unwrap(), address);
    }
}
