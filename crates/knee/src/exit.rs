//! Exit statuses.

#[cfg(feature = "prove")]
mod prove;

use std::process::ExitCode;

use knee_run::job::FailureKind;
use knee_run::record::PointFailure;
use knee_run::sweep::worst_kind;

/// Exit status of every command.
///
/// A Rust panic is a bug in knee. It kills a release build with SIGABRT, which a shell reports as
/// status 134. A debug build exits with status 101.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ExitStatus {
    /// 0: success.
    Done,
    /// 1: success, but a condition such as --fail-on matched.
    Policy,
    /// 2: usage error, as for clap's own errors.
    Usage,
    /// 3: an I/O error, a missing prerequisite such as a permission, a program or disk space, or a file
    /// that is missing or has unusable content.
    Environment,
    /// 4: a testcase died, hung or returned instead of looping forever, or a model failed.
    TestcaseDied,
    /// 5: other work disturbed the measurements too much to decide about a condition such as
    /// --fail-on, or a point was not decided in time.
    TooNoisy,
    /// The status of a command that knee ran for the user, as a shell reports it.
    OfCommand(i32),
    /// 128 plus the signal number: interrupted. knee keeps the results so far, marked as
    /// incomplete.
    Interrupted(i32),
}

impl ExitStatus {
    /// The number that the process exits with.
    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Policy => 1,
            Self::Usage => 2,
            Self::Environment => 3,
            Self::TestcaseDied => 4,
            Self::TooNoisy => 5,
            Self::OfCommand(status) => status as u8,
            Self::Interrupted(signal) => 128 + signal as u8,
        }
    }

    /// The status of a run with these failures.
    pub(crate) fn of_failures(failures: &[PointFailure]) -> Self {
        worst_kind(failures).map_or(Self::Done, Self::of_failure)
    }

    /// The status for one failure.
    pub(crate) fn of_failure(kind: FailureKind) -> Self {
        match kind {
            FailureKind::CannotRun => Self::Environment,
            FailureKind::Died | FailureKind::Hung | FailureKind::Runner => Self::TestcaseDied,
        }
    }

    /// The status for an error that ended a command.
    pub(crate) fn of(error: &anyhow::Error) -> Self {
        if let Some(failed) = error.downcast_ref::<Failed>() {
            return failed.status;
        }
        #[cfg(feature = "prove")]
        if prove::is_of_model(error) {
            return Self::TestcaseDied;
        } else if prove::is_usage(error) {
            return Self::Usage;
        }
        Self::Environment
    }
}

impl From<ExitStatus> for ExitCode {
    fn from(status: ExitStatus) -> Self {
        Self::from(status.code())
    }
}

/// An error that ends a command with a status of its own.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
struct Failed {
    status: ExitStatus,
    message: String,
}

/// Returns an error that ends the command with this status and message.
pub(crate) fn failed(status: ExitStatus, message: impl Into<String>) -> anyhow::Error {
    Failed { status, message: message.into() }.into()
}

/// Returns a usage error that clap does not detect.
pub(crate) fn usage(message: impl Into<String>) -> anyhow::Error {
    failed(ExitStatus::Usage, message)
}

/// Ends the function with a usage error, like `anyhow::bail`.
macro_rules! bail_usage {
    ($($message:tt)+) => { return Err(crate::exit::usage(format!($($message)+))) };
}
pub(crate) use bail_usage;

/// Ends the function with a usage error unless a condition holds, like `anyhow::ensure`.
macro_rules! ensure_usage {
    ($condition:expr, $($message:tt)+) => {
        if !$condition {
            crate::exit::bail_usage!($($message)+)
        }
    };
}
pub(crate) use ensure_usage;
