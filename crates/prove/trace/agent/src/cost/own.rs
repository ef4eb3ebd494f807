//! The objects of an experiment's task, and the operations on them.

use knee_plan::Returned;
use std::ffi::CString;
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use knee_operations::{Calls, Memory, Owner, PAGE};
use rustix::fs::{self, Mode, OFlags};
use rustix::io::{self, Errno, Result};
use rustix::mm::{Advice, MapFlags, MprotectFlags, ProtFlags};
use rustix::mm::{madvise, mmap_anonymous, mprotect, munmap};
use rustix::thread::disable_transparent_huge_pages;

use crate::fault;

const WRITABLE: ProtFlags = ProtFlags::READ.union(ProtFlags::WRITE);

/// The objects of a task.
pub struct Own {
    /// The name of the task's file in the directory that all tasks share.
    pub(super) name: CString,
    /// A second name for the task's file. Between operations, no file has this name.
    pub(super) other: CString,
    file: Option<OwnedFd>,
    /// A file that all tasks have open.
    pub(super) shared: Arc<File>,
    /// A channel: the end to read from, and the end to write to.
    pub(super) ends: Option<(OwnedFd, OwnedFd)>,
    /// The number of bytes of a message through `ends`.
    pub(super) message: usize,
    /// The address of a page that the task has mapped, or 0.
    pub(super) page: usize,
    futex: Futex,
    /// The buffer of reads and writes.
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
    /// Returns the objects of task `nr`; `tasks` is the number of tasks in its address space.
    pub(super) fn new(nr: usize, tasks: usize, shared: Arc<File>) -> Own {
        let name = |kind| CString::new(format!("{kind}{nr}")).expect("no NUL in it");
        Own {
            name: name("file"),
            other: name("other"),
            file: None,
            shared,
            ends: None,
            message: 1,
            page: 0,
            futex: Futex::default(),
            buffer: Box::new([7; PAGE]),
            memory: Memory::new(Linux, nr, tasks),
        }
    }

    /// Makes the task's file, which is a page long.
    pub(super) fn create(&mut self) -> Result<()> {
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY;
        let file = fs::open(&self.name, flags, Mode::from_raw_mode(0o644))?;
        whole(io::write(&file, &*self.buffer)?)
    }

    /// Makes the task's file, if it does not exist, and leaves it empty.
    pub(super) fn create_empty(&mut self) -> Result<()> {
        let flags = OFlags::CREATE | OFlags::RDWR;
        fs::open(&self.name, flags, Mode::from_raw_mode(0o600)).map(drop)
    }

    /// Uses a file of the task in a directory, which may exist.
    pub(super) fn go_into(&mut self, directory: &str) -> Result<()> {
        self.name = CString::new(format!("{directory}/{}", self.name.to_string_lossy()))
            .map_err(|_| Errno::INVAL)?;
        match fs::mkdir(directory, Mode::RWXU) {
            Err(Errno::EXIST) => Ok(()),
            other => other,
        }
    }

    /// Uses the file that all tasks share as the task's file.
    pub(super) fn use_shared(&mut self) -> Result<()> {
        self.name = c"shared".to_owned();
        Ok(())
    }

    pub(super) fn open(&mut self) -> Result<()> {
        self.file = Some(fs::open(&self.name, OFlags::RDWR, Mode::empty())?);
        Ok(())
    }

    /// The task's futex. Its value is 0.
    pub(super) fn futex(&self) -> &AtomicU32 {
        &self.futex.0
    }

    /// Opens the directory of the task's file.
    pub(super) fn open_directory(&mut self) -> Result<()> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        self.file = Some(fs::open(".", flags, Mode::empty())?);
        Ok(())
    }

    pub(super) fn close(&mut self) -> Result<()> {
        self.file = None;
        Ok(())
    }

    pub(super) fn file(&self) -> Result<BorrowedFd<'_>> {
        self.file.as_ref().map(OwnedFd::as_fd).ok_or(Errno::BADF)
    }

    /// Reads a page of the task's file at its offset.
    pub(super) fn read(&mut self) -> Result<()> {
        let (file, buffer) = self.file_and_buffer()?;
        whole(io::read(file, buffer)?)
    }

    /// Writes a page of the task's file at its offset.
    pub(super) fn write(&mut self) -> Result<()> {
        let (file, buffer) = self.file_and_buffer()?;
        whole(io::write(file, buffer)?)
    }

    /// Reads the first page of the task's file.
    pub(super) fn pread(&mut self) -> Result<()> {
        let (file, buffer) = self.file_and_buffer()?;
        whole(io::pread(file, buffer, 0)?)
    }

    /// Writes the first page of the task's file.
    pub(super) fn pwrite(&mut self) -> Result<()> {
        let (file, buffer) = self.file_and_buffer()?;
        whole(io::pwrite(file, buffer, 0)?)
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

/// Linux system calls, and accesses that fail instead of raising a signal.
pub struct Linux;

/// Fails if an access raised a signal.
fn allowed(returned: Returned) -> Result<()> {
    match returned {
        Returned::Signal(_) => Err(Errno::FAULT),
        _ => Ok(()),
    }
}

impl Calls for Linux {
    type Error = Errno;

    fn map_page(&mut self, at: usize) -> Result<()> {
        let flags = MapFlags::PRIVATE | MapFlags::FIXED;
        // SAFETY: the address is in the range that the agent keeps for tests, which contains no
        // memory of the program.
        unsafe { mmap_anonymous(at as *mut _, PAGE, WRITABLE, flags) }.map(drop)
    }

    fn map(&mut self, bytes: usize) -> Result<usize> {
        // SAFETY: the kernel chooses the address, so no mapping is replaced.
        let at = unsafe { mmap_anonymous(ptr::null_mut(), bytes, WRITABLE, MapFlags::PRIVATE)? };
        Ok(at.addr())
    }

    fn unmap(&mut self, at: usize, bytes: usize) -> Result<()> {
        // SAFETY: this is a mapping of this task, and there are no references to it.
        unsafe { munmap(at as *mut _, bytes) }
    }

    fn protect_page(&mut self, at: usize, writable: bool) -> Result<()> {
        let protection = match writable {
            true => MprotectFlags::READ | MprotectFlags::WRITE,
            false => MprotectFlags::READ,
        };
        // SAFETY: the page is in the range that is kept for tests.
        unsafe { mprotect(at as *mut _, PAGE, protection) }
    }

    fn discard_page(&mut self, at: usize) -> Result<()> {
        // SAFETY: the page is in the range that is kept for tests.
        unsafe { madvise(at as *mut _, PAGE, Advice::LinuxDontNeed) }
    }

    fn load(&mut self, at: usize) -> Result<()> {
        allowed(fault::load(at))
    }

    fn store(&mut self, at: usize) -> Result<()> {
        allowed(fault::store(at, 1))
    }

    fn avoid_huge_pages(&mut self) -> Result<()> {
        disable_transparent_huge_pages(true)
    }

    fn out_of_memory() -> Errno {
        Errno::NOMEM
    }
}
