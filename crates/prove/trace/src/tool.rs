//! Runs programs that are installed on this machine: apt, dpkg-deb, decompressors.

use std::io::{self, Read};
use std::panic::resume_unwind;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use knee_host::process::{self, Tied, Ties, spawn, wait_readable};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// A mebibyte, the unit of limits.
pub(crate) const MIB: u64 = 1 << 20;
/// How often to find out whether a program is stuck.
const LOOK: Duration = Duration::from_millis(500);

/// Why a program on this machine could not be run, or failed.
#[derive(Debug, thiserror::Error)]
pub enum ToolError {
    /// The program is not installed.
    #[error("{program} is not installed: apt-get install {package}")]
    NotInstalled {
        /// The program.
        program: String,
        /// The Debian packages that contain the program.
        package: &'static str,
    },
    /// The program failed.
    #[error("{program} failed: {message}")]
    Failed {
        /// The program.
        program: String,
        /// What the program wrote to standard error, or why it could not be run.
        message: String,
    },
}

impl ToolError {
    /// Why a command could not be run. `package` is the Debian package that contains the command's program.
    pub(crate) fn not_run(command: &Command, package: &'static str, error: &io::Error) -> Self {
        let program = command.get_program().to_string_lossy().into_owned();
        match error.kind() {
            io::ErrorKind::NotFound => ToolError::NotInstalled { program, package },
            _ => ToolError::Failed { program, message: error.to_string() },
        }
    }
}

/// Runs a command to completion and returns what it prints. `package` is the Debian package that contains the
/// command's program.
///
/// # Errors
/// The command cannot be run, or its exit status is not 0.
pub(crate) fn output(command: &mut Command, package: &'static str) -> Result<Vec<u8>, ToolError> {
    let output = process::output(command);
    let output = output.map_err(|error| ToolError::not_run(command, package, &error))?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    let program = command.get_program().to_string_lossy().into_owned();
    let message = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(ToolError::Failed { program, message })
}

/// Like [`output()`], but fails if the command prints more than `limit` bytes.
pub(crate) fn output_up_to(
    limit: u64,
    command: &mut Command,
    package: &'static str,
) -> Result<Vec<u8>, ToolError> {
    output_unless(&|| false, limit, command, package)
}

/// Like [`output_up_to`], but kills the program as soon as `is_stuck` is true.
pub(crate) fn output_unless(
    is_stuck: &(dyn Fn() -> bool + Sync),
    limit: u64,
    command: &mut Command,
    package: &'static str,
) -> Result<Vec<u8>, ToolError> {
    let child = spawn(command.stdout(Stdio::piped()).stderr(Stdio::piped()), Ties::bound());
    let child = child.map_err(|error| ToolError::not_run(command, package, &error))?;
    let program = command.get_program().to_string_lossy().into_owned();
    let failed = |message: String| ToolError::Failed { program: program.clone(), message };
    // `Tied` kills the program on return, so that it does not wait forever with output that nobody reads.
    let mut child = Tied(child);
    let (stdout, stderr) = (child.0.stdout.take(), child.0.stderr.take());
    let end = pidfd_open(Pid::from_child(&child.0), PidfdFlags::empty());
    let end = end.map_err(|error| failed(error.to_string()))?;
    let (printed, message) = thread::scope(|scope| {
        scope.spawn(|| {
            while !wait_readable(&end, LOOK) {
                if is_stuck() {
                    let _ = pidfd_send_signal(&end, Signal::KILL);
                    break;
                }
            }
        });
        // Read both pipes at the same time: if a program has filled one pipe, it waits until somebody reads
        // that pipe.
        let message = scope.spawn(|| read_pipe("its message", stderr, MIB));
        let printed = read_pipe("its output", stdout, limit);
        if printed.is_err() {
            let _ = child.0.kill();
        }
        (printed, message.join().unwrap_or_else(|panic| resume_unwind(panic)))
    });
    let printed = match printed {
        Ok(printed) => printed,
        Err(error) => return Err(failed(error.to_string())),
    };
    match child.0.wait() {
        Ok(status) if status.success() => Ok(printed),
        Ok(_) => {
            Err(failed(String::from_utf8_lossy(&message.unwrap_or_default()).trim().to_owned()))
        }
        Err(error) => Err(failed(error.to_string())),
    }
}

/// Reads a pipe to its end, or fails after `limit` bytes. Then closes the pipe, so that a program that still
/// prints does not wait for a reader forever.
fn read_pipe(what: &str, pipe: Option<impl Read>, limit: u64) -> io::Result<Vec<u8>> {
    pipe.map_or(Ok(Vec::new()), |pipe| read_at_most(what, pipe, limit))
}

/// Reads a file of a package, or the output of a program, to its end. `what` is its name in an error.
///
/// # Errors
/// The reader fails, or returns more than `limit` bytes.
pub(crate) fn read_at_most(what: &str, from: impl Read, limit: u64) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    from.take(limit + 1).read_to_end(&mut content)?;
    match content.len() as u64 > limit {
        true => {
            let mib = limit / MIB;
            let error = format!("{what} is longer than {mib} MiB, the maximum that knee reads");
            Err(io::Error::new(io::ErrorKind::FileTooLarge, error))
        }
        false => Ok(content),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Result<Vec<u8>, ToolError> {
        output_up_to(100, Command::new("sh").args(["-c", script]), "dash")
    }

    #[test]
    fn a_program_with_many_messages_does_not_wait_for_their_reader() {
        let messages = "head -c 5000000 /dev/zero >&2";
        assert_eq!(shell(&format!("{messages}; echo done")).unwrap(), b"done\n");
        assert!(shell(&format!("{messages}; exit 1")).is_err());
        let endless = shell("exec cat /dev/zero").unwrap_err().to_string();
        assert!(endless.starts_with("sh failed: its output is longer than"), "{endless}");
    }

    #[test]
    fn a_stuck_program_is_killed() {
        let mut sleep = Command::new("sleep");
        assert!(output_unless(&|| true, 100, sleep.arg("3600"), "coreutils").is_err());
    }
}
