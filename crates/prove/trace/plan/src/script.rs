//! The steps of a set-up and the calls that the processes of a guest execute, as plain data.

#![expect(
    missing_docs,
    reason = "fields and variants have the names of the arguments of the calls"
)]

use alloc::format;
use alloc::string::String;

use serde::{Deserialize, Serialize};

/// The maximum number of processes in a test.
pub const PROCESSES: usize = 3;
/// The maximum number of calls in a test.
pub const CALLS: usize = 4;
/// The maximum number of files, names, pipes or mapped pages in a test. A file or a pipe also has at most
/// this many pages.
pub const MOST: usize = 8;
/// The maximum number of descriptors that a test occupies so that the lowest unused descriptor is the
/// intended one.
pub const MOST_OCCUPIED: usize = 16;

/// The number at the end of an object's name in a test: 1 for `filename1`.
pub type Nr = u8;

/// A list of numbers.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub struct List {
    items: [Nr; MOST],
    length: usize,
}

impl List {
    /// The numbers.
    pub fn as_slice(&self) -> &[Nr] {
        &self.items[..self.length]
    }

    /// Appends a number.
    ///
    /// # Errors
    /// Fails if the list is full.
    pub fn push(&mut self, nr: Nr) -> Result<(), String> {
        let place = self.items.get_mut(self.length);
        *place.ok_or_else(|| format!("more than {MOST} objects of one kind"))? = nr;
        self.length += 1;
        Ok(())
    }
}

/// The datum of a page of zeroes, and of a page whose content does not matter to the test.
pub const ZEROES: Nr = Nr::MAX;
/// The name by which the steps of a set-up find a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Home {
    /// A name that the test uses.
    Name(Nr),
    /// The first hidden name of the inode. No call of the test uses hidden names.
    Hidden(Nr),
    /// A temporary name of the inode. A later step removes the name before the test begins.
    Own(Nr),
    /// No name at any time: the file is made with O_TMPFILE.
    Nowhere,
}

/// A step of a set-up. It creates a part of a test's initial state.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub enum Step {
    /// Makes a file, and may leave it open or mapped.
    File {
        inode: Nr,
        home: Home,
        names: List,
        links: u8,
        pages: List,
        open: Option<Opened>,
        map: Option<Mapped>,
    },
    /// Makes a pipe. `ends` are the descriptors of its read end and its write end in the first
    /// process.
    Pipe { data: List, ends: [i32; 2] },
    /// Opens a file.
    OpenFile { home: Home, open: Opened },
    /// Opens one end of a pipe as descriptor `fd`. In the first process, this end is descriptor `end`.
    OpenPipe { fd: i32, end: i32, write: bool },
    /// Occupies a descriptor, which may refer to anything.
    Occupy { fd: i32 },
    /// Maps a page of anonymous memory.
    MapAnonymous { va: Nr, writable: bool, datum: Nr },
    /// Maps a page of a file.
    MapFile { home: Home, map: Mapped },
    /// Reads an inode number, for comparison with the results of calls.
    Learn { inode: Nr, home: Home },
    /// Reads an inode number through a descriptor of this process.
    LearnOpen { inode: Nr, fd: i32 },
    /// Removes a temporary name of an inode.
    Forget { inode: Nr },
    /// Closes a descriptor that only the set-up needed.
    Close { fd: i32 },
}

/// A descriptor of a file; the offset is in pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Opened {
    pub fd: i32,
    pub off: i64,
}

/// The mapping of a page of a file; the offset is in pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mapped {
    pub va: Nr,
    pub writable: bool,
    pub off: i64,
}

/// The argument `whence` of lseek.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub enum Whence {
    Set,
    Cur,
    End,
    Invalid,
}

/// A call with its arguments; offsets are in pages.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub enum Call {
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

/// Returns the byte that fills a page with this datum. The byte is 0 only for [`ZEROES`], so a page with any
/// other datum differs from new memory.
pub fn content(datum: Nr) -> u8 {
    if datum == ZEROES { 0 } else { datum + 1 }
}
