//! The commands that the kernel gives to the program `tasks`, one for each turn of a task. The kernel and the
//! program both include this file.

use knee_operations::trials::Kind;

/// What a task does in its turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Command {
    /// Empty the caches that the plugin models.
    Flush,
    /// Set up the operation with this index, as one of `tasks` tasks in the address space.
    SetUp { operation: u8, nr: u8, tasks: u8 },
    /// Do the operation once.
    Perform,
    /// Run a test whose two sides conflict, so that QEMU pauses.
    Pause,
    /// Do the operation of a trial without marks, so that it is not part of a test.
    WarmUp(Kind),
    /// Run one side of a trial.
    Trial(Kind, u8),
}

#[allow(dead_code, reason = "the kernel only encodes commands, and the program only decodes them")]
impl Command {
    /// The command as the result of a system call.
    pub(crate) fn word(self) -> u64 {
        u64::from_le_bytes(match self {
            Command::Flush => [0; 8],
            Command::SetUp { operation, nr, tasks } => [1, operation, nr, tasks, 0, 0, 0, 0],
            Command::Perform => [2, 0, 0, 0, 0, 0, 0, 0],
            Command::Pause => [3, 0, 0, 0, 0, 0, 0, 0],
            Command::WarmUp(kind) => [4, kind as u8, 0, 0, 0, 0, 0, 0],
            Command::Trial(kind, side) => [5, kind as u8, side, 0, 0, 0, 0, 0],
        })
    }

    /// The command that a system call has returned.
    pub(crate) fn of(word: u64) -> Option<Command> {
        let kind = |kind: u8| Kind::ALL.get(usize::from(kind)).copied();
        Some(match word.to_le_bytes() {
            [0, ..] => Command::Flush,
            [1, operation, nr, tasks, ..] => Command::SetUp { operation, nr, tasks },
            [2, ..] => Command::Perform,
            [3, ..] => Command::Pause,
            [4, of, ..] => Command::WarmUp(kind(of)?),
            [5, of, side, ..] => Command::Trial(kind(of)?, side),
            _ => return None,
        })
    }
}
