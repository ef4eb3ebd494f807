//! Processes or threads.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strum::{Display, IntoStaticStr};

/// Whether the tasks of a point are processes or threads of one process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[derive(Serialize, Deserialize, JsonSchema, Display, IntoStaticStr)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum Mode {
    /// Each task is a process: an address space and a descriptor table of its own.
    Processes,
    /// All tasks are threads of one process.
    Threads,
}

impl Mode {
    /// Both, in the order in which they are shown.
    pub const ALL: [Self; 2] = [Self::Processes, Self::Threads];

    /// `processes` or `threads`.
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    /// `16 threads`, `1 process`.
    pub fn tasks(self, n: u32) -> String {
        match (self, n) {
            (Self::Processes, 1) => "1 process".to_owned(),
            (Self::Threads, 1) => "1 thread".to_owned(),
            _ => format!("{n} {self}"),
        }
    }
}
