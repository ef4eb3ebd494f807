//! Reads a guest's memory while the guest runs.
//!
//! QEMU keeps the memory in a file that it shares with knee, so knee can read the kernel's data from outside,
//! without help from the guest. knee maps the file, because it reads a few bytes hundreds of times to name
//! the shared data of a test. Without the mapping, each of these reads would be a system call.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileExt;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use crate::memfd;

/// A guest's memory by physical address. If a PC has at most 3 GiB of memory, the memory is one
/// range that starts at physical address 0.
#[derive(Clone, Debug)]
pub struct Ram {
    file: Arc<File>,
    mapped: Arc<Mapped>,
}

impl Ram {
    /// Creates memory full of zeroes, which takes no host memory until it is written.
    pub(crate) fn new(name: &str, bytes: u64) -> io::Result<Ram> {
        let file = memfd::zeroes(name, bytes)?;
        let mapped = Arc::new(Mapped::new(&file, bytes)?);
        Ok(Ram { file: Arc::new(file), mapped })
    }

    /// The size of the memory in bytes.
    pub fn bytes(&self) -> u64 {
        self.mapped.bytes as u64
    }

    /// Reads the bytes at a physical address into `to`. The guest may change these bytes at the same time.
    /// Fails if a byte is outside the memory.
    pub fn read(&self, physical: u64, to: &mut [u8]) -> io::Result<()> {
        let begin = usize::try_from(physical).ok();
        let end = begin.and_then(|begin| begin.checked_add(to.len()));
        match (begin, end) {
            (Some(begin), Some(end)) if end <= self.mapped.bytes => self.mapped.read(begin, to),
            _ => return Err(ErrorKind::UnexpectedEof.into()),
        }
        Ok(())
    }

    /// Writes `content` at a physical address.
    pub(crate) fn write(&self, physical: u64, content: &[u8]) -> io::Result<()> {
        self.file.write_all_at(content, physical)
    }
}

impl AsFd for Ram {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

const WORD_BYTES: usize = 8;

/// A read-only mapping of the file.
#[derive(Debug)]
struct Mapped {
    at: NonNull<u8>,
    bytes: usize,
}

// SAFETY: any thread may read the mapping, and `drop` unmaps it when nothing refers to it any more.
unsafe impl Send for Mapped {}
// SAFETY: as above; all reads are atomic.
unsafe impl Sync for Mapped {}

impl Mapped {
    /// Maps a file, and seals it so that it cannot shrink.
    fn new(file: &File, bytes: u64) -> io::Result<Mapped> {
        memfd::keep_size(file)?;
        let bytes = usize::try_from(bytes).map_err(|_| ErrorKind::OutOfMemory)?;
        // SAFETY: this is a new mapping at an address that the kernel chooses; only the returned
        // value owns it.
        let at = unsafe {
            mmap(std::ptr::null_mut(), bytes, ProtFlags::READ, MapFlags::SHARED, file, 0)?
        };
        let at = NonNull::new(at.cast()).ok_or(ErrorKind::OutOfMemory)?;
        Ok(Mapped { at, bytes })
    }

    /// Reads the bytes at offset `begin` into `to`. Panics if a byte is outside the mapping.
    fn read(&self, begin: usize, to: &mut [u8]) {
        assert!(
            begin <= self.bytes && to.len() <= self.bytes - begin,
            "the range is outside the mapping"
        );
        let head = (begin.next_multiple_of(WORD_BYTES) - begin).min(to.len());
        let (head, rest) = to.split_at_mut(head);
        self.read_bytes(begin, head);
        let mut at = begin + head.len();
        let (words, tail) = rest.as_chunks_mut::<WORD_BYTES>();
        for word in words {
            // SAFETY: these bytes are within the mapping, which lives as long as `self`. The file
            // contains these bytes, because the file cannot shrink. `at` is a multiple of the word
            // size and the mapping begins at a page boundary, so the pointer is aligned. Other
            // processes may write at any time, so the reads are atomic.
            let read =
                unsafe { AtomicU64::from_ptr(self.at.as_ptr().add(at).cast()) }.load(Relaxed);
            *word = read.to_ne_bytes();
            at += WORD_BYTES;
        }
        self.read_bytes(at, tail);
    }

    fn read_bytes(&self, begin: usize, to: &mut [u8]) {
        for (at, byte) in (begin..).zip(to) {
            // SAFETY: as in `read`; a byte is always aligned.
            *byte = unsafe { AtomicU8::from_ptr(self.at.as_ptr().add(at)) }.load(Relaxed);
        }
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: `new` created this mapping, and nothing but `self` refers to it.
        let unmapped = unsafe { munmap(self.at.as_ptr().cast(), self.bytes) };
        debug_assert!(unmapped.is_ok(), "{unmapped:?}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_returns_what_was_written_and_a_read_past_the_end_fails() {
        let ram = Ram::new("knee-test", 4096).expect("make memory");
        ram.write(100, b"knee").expect("write it");
        let mut read = [0; 6];
        ram.read(99, &mut read).expect("read it");
        assert_eq!(&read, b"\0knee\0");
        for outside in [4092, 4096, 1 << 40, u64::MAX] {
            assert!(ram.read(outside, &mut read).is_err(), "{outside:#x}");
        }
    }

    #[test]
    fn a_read_may_start_and_end_at_any_byte() {
        let ram = Ram::new("knee-test", 4096).expect("make memory");
        let content: Vec<u8> = (0..64).collect();
        ram.write(4096 - 64, &content).expect("write it");
        for begin in 0..16 {
            for end in begin..64 {
                let mut read = vec![0xff; end - begin];
                ram.read((4096 - 64 + begin) as u64, &mut read).expect("read it");
                assert_eq!(read, content[begin..end]);
            }
        }
    }

    #[test]
    fn mapped_memory_cannot_be_truncated() {
        let ram = Ram::new("knee-test", 4096).expect("make memory");
        assert!(ram.file.set_len(0).is_err());
    }
}
