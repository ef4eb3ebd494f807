//! The system calls by which an experiment's tasks use memory.

use std::ptr;

use knee_operations::{Calls, PAGE};
use knee_plan::Returned;
use rustix::io::{Errno, Result};
use rustix::mm::{Advice, MapFlags, MprotectFlags, ProtFlags};
use rustix::mm::{madvise, mmap_anonymous, mprotect, munmap};
use rustix::thread::disable_transparent_huge_pages;

use crate::fault;

pub(super) const WRITABLE: ProtFlags = ProtFlags::READ.union(ProtFlags::WRITE);

/// Linux system calls, and accesses that fail instead of raising a signal.
pub struct Linux;

/// Fails if an access raised a signal.
pub(super) fn allowed(returned: Returned) -> Result<()> {
    match returned {
        Returned::Signal(_) => Err(Errno::FAULT),
        _ => Ok(()),
    }
}

impl Calls for Linux {
    type Error = Errno;

    fn map_page(&mut self, at: usize) -> Result<()> {
        let flags = MapFlags::PRIVATE | MapFlags::FIXED;
        // SAFETY: the address is in the range that the agent reserves for tests. The range contains no memory
        // of the program.
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
        // SAFETY: the page belongs to this task, and there are no references to it.
        unsafe { mprotect(at as *mut _, PAGE, protection) }
    }

    fn discard(&mut self, at: usize, bytes: usize) -> Result<()> {
        // SAFETY: the pages belong to this task, and there are no references to them.
        unsafe { madvise(at as *mut _, bytes, Advice::LinuxDontNeed) }
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

    fn allow_huge_pages(&mut self, at: usize, bytes: usize) -> Result<()> {
        // SAFETY: this does not change the contents of memory.
        unsafe { madvise(at as *mut _, bytes, Advice::LinuxHugepage) }
    }

    fn out_of_memory() -> Errno {
        Errno::NOMEM
    }
}
