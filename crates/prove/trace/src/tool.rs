//! Runs programs that are installed on this machine: apt, dpkg-deb, decompressors.

use std::io;
use std::process::Command;

use knee_host::process;

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
