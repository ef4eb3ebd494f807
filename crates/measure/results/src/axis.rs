//! What grows along a curve.

use knee_host::number::plural;

/// What grows along a curve.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Axis {
    /// The task count.
    Tasks,
    /// The number of connections to a server.
    Connections {
        /// The task count of the server at all points.
        tasks: u32,
    },
}

impl Axis {
    /// `task` or `connection`.
    pub fn unit(self) -> &'static str {
        match self {
            Self::Tasks => "task",
            Self::Connections { .. } => "connection",
        }
    }

    /// `tasks` or `connections`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Tasks => "tasks",
            Self::Connections { .. } => "connections",
        }
    }

    /// `16 tasks`, `1 connection`.
    pub fn count(self, n: u32) -> String {
        plural(n as usize, self.unit())
    }
}
