//! What a program that runs under QEMU prints, and how it ends.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use crate::guest::End;
use crate::record::Record;

/// An event of a program that runs.
pub(super) enum ProgramEvent {
    /// A line on its standard output, without its end.
    Line(String),
    /// A result of the plugin.
    Result(Record),
    /// There is nothing after this.
    End(End),
}

/// How a program ended, from its status and the last that it wrote to standard error.
pub(super) fn end(status: ExitStatus, complaints: &[u8]) -> End {
    let how = match status.signal() {
        _ if status.success() => return End::Exited,
        Some(signal) => format!("it was killed by signal {signal}"),
        None => status.to_string(),
    };
    End::Died(match String::from_utf8_lossy(complaints).trim() {
        "" => how,
        complaints => format!("{how}: {complaints}"),
    })
}

pub(super) fn silent() -> End {
    End::Died("it printed nothing".to_owned())
}
