//! One check of the machine: what it found, and how to fix it.

use serde::Serialize;

/// One requirement of some part of knee.
#[derive(Debug, Serialize)]
pub(super) struct Check {
    pub(super) name: &'static str,
    /// The part of knee, and what it needs the requirement for.
    pub(super) needed_for: &'static str,
    pub(super) status: Status,
    pub(super) detail: String,
    pub(super) remedy: Option<Remedy>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Status {
    Ok,
    /// knee works, but with less insight or more noise.
    Limited,
    /// The part of knee that needs it does not work.
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

impl Check {
    pub(super) fn ok(
        name: &'static str,
        needed_for: &'static str,
        detail: impl Into<String>,
    ) -> Check {
        Check { name, needed_for, status: Status::Ok, detail: detail.into(), remedy: None }
    }

    pub(super) fn limited(self, remedy: Remedy) -> Check {
        Check { status: Status::Limited, remedy: Some(remedy), ..self }
    }

    pub(super) fn missing(self, remedy: Remedy) -> Check {
        Check { status: Status::Missing, remedy: Some(remedy), ..self }
    }
}

pub(super) fn command(text: impl Into<String>) -> Remedy {
    Remedy::Command(text.into())
}

pub(super) fn statement(text: impl Into<String>) -> Remedy {
    Remedy::Statement(text.into())
}
