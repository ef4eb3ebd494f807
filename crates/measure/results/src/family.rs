//! What testcases exercise.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strum::{Display, IntoStaticStr};

/// What a testcase exercises: a service of the operating system, or a library.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[derive(Serialize, Deserialize, JsonSchema, Display, IntoStaticStr)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum Family {
    /// Address spaces: maps, page faults, TLB shootdown, the heap.
    Memory,
    /// Reading and writing open files.
    File,
    /// Names: opening, linking and looking up files.
    Directory,
    /// Locks, semaphores and futexes.
    Lock,
    /// Pipes, sockets and waiting for them on one machine.
    Ipc,
    /// The network stack over loopback.
    Network,
    /// Processes, signals, the scheduler and the bare system call.
    Process,
    /// The crate knee-sync and the primitives that it replaces.
    Sync,
    /// The crate knee-vm: the operations of `memory`, in a library instead of the kernel.
    Vm,
    /// Servers under load.
    Server,
    /// Testcases loaded with `--plugin`.
    Plugin,
    /// Commands, of `knee run` and `knee ab`.
    Command,
}

impl Family {
    /// Every family of built-in testcases, in the order of `knee list`.
    pub const ALL: [Self; 9] = [
        Self::Memory,
        Self::File,
        Self::Directory,
        Self::Lock,
        Self::Ipc,
        Self::Network,
        Self::Process,
        Self::Sync,
        Self::Vm,
    ];

    /// The name after `family:`.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}
