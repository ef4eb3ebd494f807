//! The buffer into which the kernel writes the records of one CPU.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use perf_event_open_sys::bindings::perf_event_mmap_page;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use rustix::param::page_size;

use super::access::SampleError;

/// A buffer: a page with the kernel's positions, followed by a ring of bytes.
#[derive(Debug)]
pub(super) struct Ring {
    /// The event that owns the buffer.
    fd: OwnedFd,
    page: NonNull<perf_event_mmap_page>,
    /// Size of the ring in bytes, a power of two.
    bytes: usize,
}

// SAFETY: nothing else uses the mapping, and only `read` accesses it, through `&mut self`.
unsafe impl Send for Ring {}

impl Ring {
    /// Size for samples: that of `perf record`, which holds a second of deep stacks.
    pub(super) const BYTES: usize = 512 << 10;

    /// Smallest size if memory for buffers is short.
    const LEAST: usize = 32 << 10;

    /// Maps the buffer of an event, with `bytes` bytes (a power of two), or fewer if memory is short.
    pub(super) fn map(event: &impl AsFd, bytes: usize) -> Result<Ring, SampleError> {
        let fd = event.as_fd().try_clone_to_owned().map_err(SampleError::Cpus)?;
        let mut bytes = bytes.max(page_size());
        loop {
            let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
            let length = page_size() + bytes;
            // SAFETY: the kernel chooses a free address.
            let mapped = unsafe { mmap(std::ptr::null_mut(), length, protection, flags, &fd, 0) };
            match mapped {
                Ok(page) => {
                    let page = NonNull::new(page.cast()).expect("the kernel never maps address 0");
                    return Ok(Ring { fd, page, bytes });
                }
                Err(_) if bytes / 2 >= Ring::LEAST.max(page_size()) => bytes /= 2,
                Err(error) => return Err(SampleError::NoBuffer { error: io::Error::from(error) }),
            }
        }
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Moves the content of the buffer to the end of `into`.
    pub(super) fn read(&mut self, into: &mut Vec<u8>) {
        let page = self.page.as_ptr();
        // SAFETY: the page is mapped, both fields are aligned, and the kernel writes them atomically.
        let (head, tail) = unsafe {
            (
                AtomicU64::from_ptr(&raw mut (*page).data_head),
                AtomicU64::from_ptr(&raw mut (*page).data_tail),
            )
        };
        // Acquire: all bytes before the head are written.
        let (end, start) = (head.load(Ordering::Acquire), tail.load(Ordering::Relaxed));
        let length = (end - start) as usize;
        let offset = start as usize & (self.bytes - 1);
        let first = length.min(self.bytes - offset);
        // SAFETY: the ring follows the page, and the kernel does not write between tail and head.
        unsafe {
            let ring = page.cast::<u8>().add(page_size());
            into.extend_from_slice(std::slice::from_raw_parts(ring.add(offset), first));
            into.extend_from_slice(std::slice::from_raw_parts(ring, length - first));
        }
        // Release: our reads complete before the kernel writes there again.
        tail.store(end, Ordering::Release);
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: this is the whole mapping, and nothing refers to it any more.
        let _ = unsafe { munmap(self.page.as_ptr().cast(), page_size() + self.bytes) };
    }
}
