//! Memory that a task maps, touches and unmaps.

use std::os::fd::BorrowedFd;
use std::ptr;

use knee_operations::Calls;
use rustix::io::{Errno, Result};
use rustix::mm::{MapFlags, mmap, mmap_anonymous};

use super::linux::{Linux, WRITABLE, allowed};
use crate::fault;
use crate::layout::PAGE;

/// Mapped memory of a task. A region of 0 bytes is not mapped.
#[derive(Default)]
pub(super) struct Region {
    /// The address of the first byte.
    pub(super) at: usize,
    /// The size in bytes.
    pub(super) bytes: usize,
    /// The offset of the page that the task touches next.
    next: usize,
}

impl Region {
    /// Maps private anonymous memory.
    pub(super) fn anonymous(bytes: usize) -> Result<Region> {
        Ok(Region { at: Linux.map(bytes)?, bytes, next: 0 })
    }

    /// Maps private anonymous memory at `at`. Fails if the address range is not free.
    pub(super) fn anonymous_at(at: usize, bytes: usize) -> Result<Region> {
        let flags = MapFlags::PRIVATE | MapFlags::FIXED_NOREPLACE;
        // SAFETY: the flags make the call fail if the address range is not free.
        unsafe { mmap_anonymous(ptr::without_provenance_mut(at), bytes, WRITABLE, flags)? };
        Ok(Region { at, bytes, next: 0 })
    }

    /// Maps the first `bytes` bytes of a file. `flags` is `MapFlags::PRIVATE` or `MapFlags::SHARED`.
    pub(super) fn of_file(file: BorrowedFd<'_>, bytes: usize, flags: MapFlags) -> Result<Region> {
        // SAFETY: the kernel chooses the address, so no mapping is replaced.
        let at = unsafe { mmap(ptr::null_mut(), bytes, WRITABLE, flags, file, 0)? };
        Ok(Region { at: at.addr(), bytes, next: 0 })
    }

    /// Unmaps the region.
    pub(super) fn unmap(&mut self) -> Result<()> {
        let Region { at, bytes, .. } = std::mem::take(self);
        Linux.unmap(at, bytes)
    }

    /// Returns the offset of the next page, or `None` at the end of the region.
    pub(super) fn next_page(&mut self) -> Option<usize> {
        let offset = self.next;
        (offset < self.bytes).then(|| self.next += PAGE)?;
        Some(offset)
    }

    /// Whether the task has touched all pages.
    pub(super) fn is_used_up(&self) -> bool {
        self.next == self.bytes
    }

    /// Writes a byte.
    pub(super) fn write(&self, offset: usize, value: u8) -> Result<()> {
        allowed(fault::store(self.byte(offset)?, value))
    }

    /// Reads a byte.
    pub(super) fn read(&self, offset: usize) -> Result<u8> {
        match fault::load(self.byte(offset)?) {
            knee_plan::Returned::Page(byte) => Ok(byte),
            _ => Err(Errno::FAULT),
        }
    }

    /// Discards a page.
    pub(super) fn discard(&self, offset: usize) -> Result<()> {
        Linux.discard(self.byte(offset)?, PAGE)
    }

    /// Makes the first page writable or read-only.
    pub(super) fn protect(&self, writable: bool) -> Result<()> {
        Linux.protect_page(self.at, writable)
    }

    fn byte(&self, offset: usize) -> Result<usize> {
        if offset < self.bytes { Ok(self.at + offset) } else { Err(Errno::FAULT) }
    }
}
