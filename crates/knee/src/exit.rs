//! How knee ends: the exit statuses, as a type.

use std::process::ExitCode;

use knee_run::job::FailureKind;
use knee_run::record::PointFailure;
use knee_run::sweep::worst_kind;

/// Exit status of every command.
///
/// A bug in knee, a Rust panic, ends a release build with SIGABRT, which a shell shows as 134, and
/// a debug build with 101.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ExitStatus {
    /// 0: done.
    Done,
    /// 1: all went well, but a policy such as --fail-on says no to what was found.
    Policy,
    /// 2: the command line cannot be understood (as clap's own errors).
    Usage,
    /// 3: the environment lacks something: a permission, a program, room on a disk.
    Environment,
    /// 4: a testcase died, hung or returned, or a model of an interface did.
    TestcaseDied,
    /// That of a command which knee ran on behalf of its user, as a shell would have it.
    OfCommand(i32),
    /// 128 + the signal: interrupted; what was measured is kept and marked as incomplete.
    Interrupted(i32),
}

impl ExitStatus {
    /// What the failures of a run amount to.
    pub(crate) fn of_failures(failures: &[PointFailure]) -> Self {
        worst_kind(failures).map_or(Self::Done, Self::of_failure)
    }

    /// What one failure amounts to.
    pub(crate) fn of_failure(kind: FailureKind) -> Self {
        match kind {
            FailureKind::CannotRun => Self::Environment,
            FailureKind::Died | FailureKind::Hung | FailureKind::Runner => Self::TestcaseDied,
        }
    }

    /// The status of an error that ended a command.
    pub(crate) fn of(error: &anyhow::Error) -> Self {
        if error.is::<UsageError>() {
            Self::Usage
        } else if error.is::<knee_commute::ModelError>() {
            Self::TestcaseDied
        } else {
            Self::Environment
        }
    }
}

impl From<ExitStatus> for ExitCode {
    fn from(status: ExitStatus) -> Self {
        Self::from(match status {
            ExitStatus::Done => 0,
            ExitStatus::Policy => 1,
            ExitStatus::Usage => 2,
            ExitStatus::Environment => 3,
            ExitStatus::TestcaseDied => 4,
            ExitStatus::OfCommand(status) => status as u8,
            ExitStatus::Interrupted(signal) => 128 + signal as u8,
        })
    }
}

/// Arguments that clap lets through but that cannot be meant.
#[derive(Debug)]
pub(crate) struct UsageError(pub(crate) String);

impl std::fmt::Display for UsageError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for UsageError {}

/// An error of usage with this message.
pub(crate) fn usage(message: impl Into<String>) -> anyhow::Error {
    UsageError(message.into()).into()
}
