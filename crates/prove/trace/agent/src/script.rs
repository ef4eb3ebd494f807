//! What the two processes of the agent execute, as plain data: steps of the set-up, and calls.

use serde::{Deserialize, Serialize};

/// Most processes of a test.
pub(crate) const PROCESSES: usize = 2;
/// Most calls of a test.
pub(crate) const CALLS: usize = 4;
/// Most files, names, pages, pipes and mapped pages of a test, and data in a pipe or a file.
pub(crate) const MOST: usize = 8;
/// Most descriptors that a test occupies to determine the lowest unused one.
pub(crate) const MOST_OCCUPIED: usize = 16;

/// Numbers of things of a test that are called `name0`, `name1` …
pub(crate) type Nr = u8;

/// A list of numbers.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub(crate) struct List {
    items: [Nr; MOST],
    length: usize,
}

impl List {
    pub(crate) fn as_slice(&self) -> &[Nr] {
        &self.items[..self.length]
    }

    /// Appends a number.
    ///
    /// # Errors
    /// The list is full.
    pub(crate) fn push(&mut self, nr: Nr) -> Result<(), String> {
        let place = self.items.get_mut(self.length);
        *place.ok_or_else(|| format!("more than {MOST} of a kind"))? = nr;
        self.length += 1;
        Ok(())
    }
}

/// What is in a page: zeroes, or anything, or a datum.
pub(crate) const ZEROES: Nr = Nr::MAX;
/// A name under which a file is found during set-up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Home {
    /// One that tests know.
    Name(Nr),
    /// The first of the inode's names that tests do not know.
    Hidden(Nr),
    /// One of the inode that has to go before the test begins.
    Own(Nr),
    /// None at any time.
    Nowhere,
}

/// A step to the initial state of a test.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) enum Step {
    /// A file, and where it is to be open or mapped.
    File {
        inode: Nr,
        home: Home,
        names: List,
        links: u8,
        pages: List,
        open: Option<Opened>,
        map: Option<Mapped>,
    },
    /// A pipe, and which descriptors of the first process its ends are to be, to read and to write.
    Pipe { data: List, ends: [i32; 2] },
    /// A descriptor of a file.
    OpenFile { home: Home, open: Opened },
    /// A descriptor of an end of a pipe. The first process has that end open as `end`.
    OpenPipe { fd: i32, end: i32, write: bool },
    /// A descriptor of anything.
    Occupy { fd: i32 },
    /// A page of anonymous memory.
    MapAnonymous { va: Nr, writable: bool, datum: Nr },
    /// A page of a file.
    MapFile { home: Home, map: Mapped },
    /// Reads the number of an inode, with which results of calls are compared.
    Learn { inode: Nr, home: Home },
    /// The same for a file that this process has open.
    LearnOpen { inode: Nr, fd: i32 },
    /// Removes a name that only the steps needed.
    Forget { inode: Nr },
    /// Closes a descriptor that only the steps needed.
    Close { fd: i32 },
}

/// A descriptor of a file; the offset is in pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Opened {
    pub(crate) fd: i32,
    pub(crate) off: i64,
}

/// Where a page of a file is mapped; the offset is in pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Mapped {
    pub(crate) va: Nr,
    pub(crate) writable: bool,
    pub(crate) off: i64,
}

/// The argument `whence` of lseek.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) enum Whence {
    Set,
    Cur,
    End,
    Invalid,
}

/// A call with its arguments; offsets are in pages.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) enum Call {
    Open { name: Nr, creat: bool, excl: bool, trunc: bool, anyfd: bool },
    Link { old: Nr, new: Nr },
    Unlink { name: Nr },
    Rename { old: Nr, new: Nr },
    Stat { name: Nr },
    Fstat { fd: i32 },
    Lseek { fd: i32, off: i64, whence: Whence },
    Close { fd: i32 },
    Pipe,
    Read { fd: i32 },
    Write { fd: i32, datum: Nr },
    Pread { fd: i32, off: i64 },
    Pwrite { fd: i32, off: i64, datum: Nr },
    Mmap { fd: Option<i32>, off: i64, writable: bool, va: Option<Nr> },
    Munmap { va: Nr },
    Mprotect { va: Nr, writable: bool },
    Memread { va: Nr },
    Memwrite { va: Nr, datum: Nr },
}
