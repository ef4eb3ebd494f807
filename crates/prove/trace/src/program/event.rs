//! What a program that runs under QEMU prints, and how it ends.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use crate::guest::End;
use crate::record::Record;

/// An event of a running program.
pub(super) enum ProgramEvent {
    /// A line of the program's standard output, without the newline.
    Line(String),
    /// A result from the plugin.
    Result(Record),
    /// The program has ended. This is the last event.
    End(End),
}

/// How a program ended, from its exit status and the end of its standard error.
pub(super) fn end(status: ExitStatus, stderr: &[u8]) -> End {
    let how = match status.signal() {
        _ if status.success() => return End::Exited,
        Some(signal) => format!("it was killed by signal {signal}"),
        None => status.to_string(),
    };
    End::Died(match String::from_utf8_lossy(stderr).trim() {
        "" => how,
        stderr => format!("{how}: {stderr}"),
    })
}

pub(super) fn silent() -> End {
    End::Died("it printed nothing".to_owned())
}
