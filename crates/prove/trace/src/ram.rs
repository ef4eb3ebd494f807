//! A guest's memory, as it is at the moment.
//!
//! QEMU keeps it in a file that knee has too. So what the kernel has in memory can be looked at from
//! outside, while it runs, and nothing in the guest has to answer. The file is mapped: to name what
//! calls share takes some hundred reads of a few bytes, and each would be a system call.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileExt;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use crate::memfd;

/// Memory of a guest, by physical address: a PC with at most 3 GiB has it in one piece from 0 on.
#[derive(Clone, Debug)]
pub struct Ram {
    file: Arc<File>,
    mapped: Arc<Mapped>,
}

impl Ram {
    /// Memory full of zeroes, which takes no room until it is written.
    pub(crate) fn new(name: &str, bytes: u64) -> io::Result<Ram> {
        let file = memfd::zeroes(name, bytes)?;
        let mapped = Arc::new(Mapped::new(&file, bytes)?);
        Ok(Ram { file: Arc::new(file), mapped })
    }

    /// Its size in bytes.
    pub fn bytes(&self) -> u64 {
        self.mapped.bytes as u64
    }

    /// Fills `to` with what is at a physical address now. The guest may be changing it.
    pub fn read(&self, physical: u64, to: &mut [u8]) -> io::Result<()> {
        let begin = usize::try_from(physical).ok();
        let end = begin.and_then(|begin| begin.checked_add(to.len()));
        match (begin, end) {
            (Some(begin), Some(end)) if end <= self.mapped.bytes => self.mapped.read(begin, to),
            _ => return Err(ErrorKind::UnexpectedEof.into()),
        }
        Ok(())
    }

    /// Writes it at a physical address.
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

/// The file in this process's memory, to be read.
#[derive(Debug)]
struct Mapped {
    at: NonNull<u8>,
    bytes: usize,
}

// SAFETY: any thread may read what is mapped, and it is unmapped by the last owner.
unsafe impl Send for Mapped {}
// SAFETY: as above; all reads are atomic.
unsafe impl Sync for Mapped {}

impl Mapped {
    /// Maps a file of memory, which stays as long as it is.
    fn new(file: &File, bytes: u64) -> io::Result<Mapped> {
        memfd::keep_size(file)?;
        let bytes = usize::try_from(bytes).map_err(|_| ErrorKind::OutOfMemory)?;
        // SAFETY: a new mapping, where the kernel finds room, which only this owns.
        let at = unsafe {
            mmap(std::ptr::null_mut(), bytes, ProtFlags::READ, MapFlags::SHARED, file, 0)?
        };
        let at = NonNull::new(at.cast()).ok_or(ErrorKind::OutOfMemory)?;
        Ok(Mapped { at, bytes })
    }

    /// Fills `to` with what is at `begin`; it is all inside.
    fn read(&self, begin: usize, to: &mut [u8]) {
        assert!(begin <= self.bytes && to.len() <= self.bytes - begin, "it is inside");
        let head = (begin.next_multiple_of(WORD_BYTES) - begin).min(to.len());
        let (head, rest) = to.split_at_mut(head);
        self.read_bytes(begin, head);
        let mut at = begin + head.len();
        let (words, tail) = rest.as_chunks_mut::<WORD_BYTES>();
        for word in words {
            // SAFETY: these bytes are mapped as long as `self` is, and as the file keeps its size they
            // are there; `at` is a multiple of a word's size, of a mapping that begins with a page.
            // Other processes write them at any time: so they are read atomically.
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
        // SAFETY: it was mapped by `new`, and nothing refers to it but `self`.
        let unmapped = unsafe { munmap(self.at.as_ptr().cast(), self.bytes) };
        debug_assert!(unmapped.is_ok(), "{unmapped:?}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_there_and_beyond_its_end_is_nothing() {
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
    fn from_any_byte_on_as_many_as_are_wanted_are_read() {
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
    fn memory_that_is_mapped_keeps_its_size() {
        let ram = Ram::new("knee-test", 4096).expect("make memory");
        assert!(ram.file.set_len(0).is_err());
    }
}
