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
    /// Run the operation of a trial outside of any test, that is, without marks.
    WarmUp(Kind),
    /// Run one side of a trial.
    Trial(Kind, u8),
    /// Begin a run of a test.
    Begin,
    /// End the run.
    End,
    /// Make a call of a test in the window of this side.
    Call(u8, MemoryCall),
}

/// A call of a test. The pages of a test are numbered, and `page_at` of the crate knee-operations returns the
/// address of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MemoryCall {
    /// Map memory at `page` or, if that is `None`, at an address that the kernel chooses. The memory is
    /// anonymous if `file` is `None`; otherwise, `file` contains a descriptor and the number of a page of its
    /// file.
    Mmap {
        page: Option<u8>,
        file: Option<(u8, u8)>,
        writable: bool,
    },
    Munmap {
        page: u8,
    },
    Mprotect {
        page: u8,
        writable: bool,
    },
    /// Load the first word of a page. The result is the first byte of the word.
    Memread {
        page: u8,
    },
    /// Store this value to the first word of a page.
    Memwrite {
        page: u8,
        value: u8,
    },
}

/// If an access raises a signal, the status of the turn is this value plus the number of the signal.
pub(crate) const SIGNAL: u64 = 1 << 32;

/// The encoding of `None`, for a page or a descriptor.
const NONE: u8 = u8::MAX;

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
            Command::Call(side, call) => {
                let [kind, page, file, offset, value] = match call {
                    MemoryCall::Mmap { page, file, writable } => {
                        let (file, offset) = file.unwrap_or((NONE, 0));
                        [0, page.unwrap_or(NONE), file, offset, writable.into()]
                    }
                    MemoryCall::Munmap { page } => [1, page, 0, 0, 0],
                    MemoryCall::Mprotect { page, writable } => [2, page, 0, 0, writable.into()],
                    MemoryCall::Memread { page } => [3, page, 0, 0, 0],
                    MemoryCall::Memwrite { page, value } => [4, page, 0, 0, value],
                };
                [6, side, kind, page, file, offset, value, 0]
            }
            Command::Begin => [7, 0, 0, 0, 0, 0, 0, 0],
            Command::End => [8, 0, 0, 0, 0, 0, 0, 0],
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
            [6, side, kind, page, file, offset, value, _] => {
                let some = |number: u8| (number != NONE).then_some(number);
                let writable = value != 0;
                Command::Call(
                    side,
                    match kind {
                        0 => MemoryCall::Mmap {
                            page: some(page),
                            file: some(file).map(|file| (file, offset)),
                            writable,
                        },
                        1 => MemoryCall::Munmap { page },
                        2 => MemoryCall::Mprotect { page, writable },
                        3 => MemoryCall::Memread { page },
                        4 => MemoryCall::Memwrite { page, value },
                        _ => return None,
                    },
                )
            }
            [7, ..] => Command::Begin,
            [8, ..] => Command::End,
            _ => return None,
        })
    }
}
