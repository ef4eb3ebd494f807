//! One check of the machine: what it found, and how to fix it.

use serde::Serialize;

/// A requirement of a command, and whether the machine meets it.
#[derive(Debug, Serialize)]
pub(super) struct Check {
    pub(super) name: &'static str,
    /// Why a command has this requirement: a statement that starts with the command.
    pub(super) needed_for: &'static str,
    #[serde(flatten)]
    pub(super) finding: Finding,
}

/// What a check found.
#[derive(Debug, Serialize)]
pub(super) struct Finding {
    pub(super) status: Status,
    pub(super) detail: String,
    pub(super) remedy: Option<Remedy>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Status {
    Ok,
    /// knee works, but it shows less, or its results have more noise.
    Limited,
    /// The command that has this requirement does not work.
    Missing,
}

#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Remedy {
    /// A shell command.
    Command(String),
    /// Other advice, or that there is no fix.
    Statement(String),
}

/// A check, unless it does not apply to this machine.
pub(super) fn check(
    name: &'static str,
    needed_for: &'static str,
    finding: impl Into<Option<Finding>>,
) -> Option<Check> {
    Some(Check { name, needed_for, finding: finding.into()? })
}

/// The requirement is met.
pub(super) fn ok(detail: impl Into<String>) -> Finding {
    Finding { status: Status::Ok, detail: detail.into(), remedy: None }
}

/// The requirement is met in part.
pub(super) fn limited(detail: impl Into<String>, remedy: Remedy) -> Finding {
    Finding { status: Status::Limited, detail: detail.into(), remedy: Some(remedy) }
}

/// The requirement is not met.
pub(super) fn missing(detail: impl Into<String>, remedy: Remedy) -> Finding {
    Finding { status: Status::Missing, detail: detail.into(), remedy: Some(remedy) }
}

pub(super) fn command(text: impl Into<String>) -> Remedy {
    Remedy::Command(text.into())
}

pub(super) fn statement(text: impl Into<String>) -> Remedy {
    Remedy::Statement(text.into())
}
