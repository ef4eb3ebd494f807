//! The objects of an experiment's task, and the operations on them.

use std::ffi::{CStr, CString};
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use knee_operations::{Memory, Owner, PAGE};
use rustix::fs::{self, CWD, Mode, OFlags, SeekFrom};
use rustix::io::{self, Errno, Result};

use super::linux::Linux;
use super::region::Region;

/// The objects of a task.
pub struct Own {
    /// The index of the task.
    pub(super) nr: usize,
    /// The number of times that the task does the operation.
    pub(super) rounds: u32,
    /// The name of the task's file in the directory that all tasks share.
    pub(super) name: CString,
    /// A second name for the task's file. Between operations, no file has this name.
    pub(super) other: CString,
    file: Option<OwnedFd>,
    /// Further files of the task.
    pub(super) files: Vec<OwnedFd>,
    /// The offset of the task's accesses to its file.
    pub(super) offset: u64,
    /// A file that all tasks have open.
    pub(super) shared: Arc<File>,
    /// A channel: its read end and its write end.
    pub(super) ends: Option<(OwnedFd, OwnedFd)>,
    /// The size in bytes of a message that the task sends through `ends`.
    pub(super) message: usize,
    /// Memory that the task has mapped.
    pub(super) region: Region,
    futex: Futex,
    /// The buffer for reads and writes.
    buffer: Box<[u8; PAGE]>,
    memory: Memory<Linux>,
}

/// An operation of a task.
pub type Operation = knee_operations::Operation<Own, Errno>;

/// A futex on a cache line of its own.
#[derive(Default)]
#[repr(align(128))]
struct Futex(AtomicU32);

/// Fails unless a whole page was read or written.
fn whole(bytes: usize) -> Result<()> {
    if bytes == PAGE { Ok(()) } else { Err(Errno::IO) }
}

impl Own {
    /// Returns the objects of task `nr`, which does the operation `rounds` times; `tasks` is the number of
    /// tasks in its address space. `shared` is the file `shared` in the working directory.
    pub(super) fn new(nr: usize, tasks: usize, rounds: u32, shared: Arc<File>) -> Own {
        let name = |kind| CString::new(format!("{kind}{nr}")).expect("no NUL in it");
        Own {
            nr,
            rounds,
            name: name("file"),
            other: name("other"),
            file: None,
            files: Vec::new(),
            offset: 0,
            shared,
            ends: None,
            message: 1,
            region: Region::default(),
            futex: Futex::default(),
            buffer: Box::new([7; PAGE]),
            memory: Memory::new(Linux, nr, tasks),
        }
    }

    /// Creates the task's file, which is one page long.
    pub(super) fn create(&mut self) -> Result<()> {
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY;
        let file = fs::open(&self.name, flags, Mode::from_raw_mode(0o644))?;
        whole(io::write(&file, &*self.buffer)?)
    }

    /// Creates the task's file as an empty file, unless it already exists.
    pub(super) fn create_empty(&mut self) -> Result<()> {
        let flags = OFlags::CREATE | OFlags::RDWR;
        fs::openat(CWD, &self.name, flags, Mode::from_raw_mode(0o600)).map(drop)
    }

    /// Puts `directory` in front of the name of the task's file. Creates the directory, unless it already
    /// exists.
    pub(super) fn go_into(&mut self, directory: &str) -> Result<()> {
        self.name = CString::new(format!("{directory}/{}", self.name.to_string_lossy()))
            .map_err(|_| Errno::INVAL)?;
        match fs::mkdir(directory, Mode::RWXU) {
            Err(Errno::EXIST) => Ok(()),
            other => other,
        }
    }

    /// From now on, the task's file is the shared file.
    pub(super) fn use_shared(&mut self) -> Result<()> {
        self.name = c"shared".to_owned();
        Ok(())
    }

    pub(super) fn open(&mut self) -> Result<()> {
        self.file = Some(fs::openat(CWD, &self.name, OFlags::RDWR, Mode::empty())?);
        Ok(())
    }

    /// Creates and opens the task's file, which is one page long.
    pub(super) fn open_own(&mut self) -> Result<()> {
        self.create()?;
        self.open()
    }

    /// Opens the file that all tasks share.
    pub(super) fn open_shared(&mut self) -> Result<()> {
        self.use_shared()?;
        self.open()
    }

    /// The task's futex. Its value is 0.
    pub(super) fn futex(&self) -> &AtomicU32 {
        &self.futex.0
    }

    /// Opens a directory.
    pub(super) fn open_directory(&mut self, directory: &CStr) -> Result<()> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        self.file = Some(fs::open(directory, flags, Mode::empty())?);
        Ok(())
    }

    /// Creates a file of one page, opens it as one of `files`, and unlinks it.
    pub(super) fn add_file(&mut self) -> Result<()> {
        self.create()?;
        self.files.push(fs::open(&self.name, OFlags::RDWR, Mode::empty())?);
        fs::unlink(&self.name)
    }

    pub(super) fn close(&mut self) -> Result<()> {
        self.file = None;
        Ok(())
    }

    pub(super) fn file(&self) -> Result<BorrowedFd<'_>> {
        self.file.as_ref().map(OwnedFd::as_fd).ok_or(Errno::BADF)
    }

    /// Reads a page of the task's file at the offset of the descriptor.
    pub(super) fn read(&mut self) -> Result<()> {
        let (file, buffer) = self.file_and_buffer()?;
        whole(io::read(file, buffer)?)
    }

    /// Writes a page of the task's file at the offset of the descriptor.
    pub(super) fn write(&mut self) -> Result<()> {
        let (file, buffer) = self.file_and_buffer()?;
        whole(io::write(file, buffer)?)
    }

    /// Reads a page of the task's file at `offset`.
    pub(super) fn pread(&mut self) -> Result<()> {
        let offset = self.offset;
        let (file, buffer) = self.file_and_buffer()?;
        whole(io::pread(file, buffer, offset)?)
    }

    /// Writes a page of the task's file at `offset`.
    pub(super) fn pwrite(&mut self) -> Result<()> {
        let offset = self.offset;
        let (file, buffer) = self.file_and_buffer()?;
        whole(io::pwrite(file, buffer, offset)?)
    }

    /// Moves the offset of the task's descriptor to `offset`.
    pub(super) fn seek(&mut self) -> Result<()> {
        fs::seek(self.file()?, SeekFrom::Start(self.offset)).map(drop)
    }

    fn file_and_buffer(&mut self) -> Result<(BorrowedFd<'_>, &mut [u8; PAGE])> {
        let file = self.file.as_ref().ok_or(Errno::BADF)?;
        Ok((file.as_fd(), &mut self.buffer))
    }
}

impl Owner for Own {
    type Calls = Linux;

    fn memory(&mut self) -> &mut Memory<Linux> {
        &mut self.memory
    }
}
