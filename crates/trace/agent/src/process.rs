//! The agent as a process: tests come from standard input, and what came of each goes to standard
//! output, a line of JSON each.

use std::fs::File;
use std::io::{self, BufReader, LineWriter, Write};
use std::os::fd::FromRawFd;

use serde::{Deserialize, Serialize};

use crate::run::{Options, Outcome, Summary, run};
use crate::steps::OWN;

/// The argument that asks for every order of the calls.
pub const EVERY_ORDER: &str = "every-order";

/// A line of the output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Line {
    /// A test and what came of it.
    Test(String, Outcome),
    /// These were all.
    Done(Summary),
}

/// The agent: status 0 when it came to the end of the tests. It runs them in the working directory,
/// which has to be empty.
pub fn main() -> i32 {
    let every_order = std::env::args().any(|argument| argument == EVERY_ORDER);
    match work(Options { every_order, times: 1 }) {
        Ok(()) => 0,
        Err(_) => 1,
    }
}

fn work(options: Options) -> io::Result<()> {
    let [tests, mut told] = [own(0)?, own(1)?];
    let mut out = LineWriter::new(&mut told);
    let mut write = |line: &Line| {
        serde_json::to_writer(&mut out, line)?;
        out.write_all(b"\n")
    };
    let summary = run(BufReader::new(tests), options, |id, outcome, _| {
        write(&Line::Test(id.to_owned(), outcome.clone()))
    })?;
    write(&Line::Done(summary))
}

/// A descriptor under a number that no test has; the old one is closed.
pub(crate) fn own(fd: i32) -> io::Result<File> {
    raise_limit();
    // SAFETY: plain system calls; the new descriptor belongs to the file alone.
    unsafe {
        let own = libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, OWN);
        if own < 0 {
            return Err(io::Error::last_os_error());
        }
        libc::close(fd);
        Ok(File::from_raw_fd(own))
    }
}

/// Allows for as many descriptors as may be allowed for.
fn raise_limit() {
    // SAFETY: the limit is plain data.
    unsafe {
        let mut limit: libc::rlimit = std::mem::zeroed();
        if libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) == 0 {
            limit.rlim_cur = limit.rlim_max;
            libc::setrlimit(libc::RLIMIT_NOFILE, &limit);
        }
    }
}
