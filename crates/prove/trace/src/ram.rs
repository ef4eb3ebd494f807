//! Reads a guest's memory while the guest runs.
//!
//! QEMU keeps the memory in files that it shares with knee, so knee can read the kernel's data from outside,
//! without help from the guest. knee maps the files, because it reads a few bytes hundreds of times to name
//! the shared data of a test. Without the mapping, each of these reads would be a system call.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};

use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};

use crate::memfd;

/// A guest's memory by physical address. If a PC has at most 3 GiB of memory, the memory is one
/// range that starts at physical address 0.
#[derive(Clone, Debug)]
pub struct Ram {
    /// The files that contain the memory, in address order. Each file contains an equal part.
    parts: Arc<[File]>,
    mapped: Arc<Mapped>,
}

impl Ram {
    /// Creates memory full of zeroes, which takes no host memory until it is written.
    pub(crate) fn new(name: &str, bytes: u64) -> io::Result<Ram> {
        Ram::in_parts(name, bytes, 1)
    }

    /// Creates memory like [`Ram::new`], in a file for each of `count` equal parts. The size of a part must be
    /// a multiple of the page size.
    pub(crate) fn in_parts(name: &str, bytes: u64, count: u32) -> io::Result<Ram> {
        let each = bytes / u64::from(count);
        let parts: Arc<[File]> =
            (0..count).map(|_| memfd::zeroes(name, each)).collect::<io::Result<_>>()?;
        let mapped = Arc::new(Mapped::new(&parts, each)?);
        Ok(Ram { parts, mapped })
    }

    /// The files that contain the memory, in address order. Each file contains an equal part.
    pub(crate) fn parts(&self) -> &[File] {
        &self.parts
    }

    /// The size of a part in bytes.
    pub(crate) fn part_bytes(&self) -> u64 {
        self.bytes() / self.parts.len() as u64
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

    /// Writes `content` at a physical address. Fails if a byte is outside the memory.
    pub(crate) fn write(&self, physical: u64, content: &[u8]) -> io::Result<()> {
        let (mut at, mut rest) = (physical, content);
        while !rest.is_empty() {
            let (part, offset) = (at / self.part_bytes(), at % self.part_bytes());
            let part = usize::try_from(part).ok().and_then(|part| self.parts.get(part));
            let file = part.ok_or(ErrorKind::UnexpectedEof)?;
            let room = usize::try_from(self.part_bytes() - offset).unwrap_or(usize::MAX);
            let (here, there) = rest.split_at(rest.len().min(room));
            file.write_all_at(here, offset)?;
            (at, rest) = (at + here.len() as u64, there);
        }
        Ok(())
    }
}

const WORD_BYTES: usize = 8;

/// A read-only mapping of the files.
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
    /// Maps files of equal size (`each`, in bytes) at consecutive addresses, and seals the files so that they
    /// cannot shrink.
    fn new(files: &[File], each: u64) -> io::Result<Mapped> {
        let each = usize::try_from(each).map_err(|_| ErrorKind::OutOfMemory)?;
        let bytes = each.checked_mul(files.len()).ok_or(ErrorKind::OutOfMemory)?;
        // SAFETY: this is a new mapping at an address that the kernel chooses; only the returned
        // value owns it.
        let at = unsafe {
            mmap_anonymous(std::ptr::null_mut(), bytes, ProtFlags::empty(), MapFlags::PRIVATE)?
        };
        let at = NonNull::new(at.cast::<u8>()).ok_or(ErrorKind::OutOfMemory)?;
        let mapped = Mapped { at, bytes };
        for (number, file) in files.iter().enumerate() {
            memfd::keep_size(file)?;
            let flags = MapFlags::SHARED | MapFlags::FIXED;
            // SAFETY: this part of the mapping belongs to `mapped`, and nothing refers to it yet.
            unsafe {
                mmap(at.as_ptr().add(number * each).cast(), each, ProtFlags::READ, flags, file, 0)?;
            }
        }
        Ok(mapped)
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
            // SAFETY: these bytes are within the mapping, which lives as long as `self`. The files
            // contain these bytes, because the files cannot shrink. `at` is a multiple of the word
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
        assert!(ram.parts[0].set_len(0).is_err());
    }

    #[test]
    fn memory_in_several_files_is_one_range() {
        let ram = Ram::in_parts("knee-test", 3 * 4096, 3).expect("make memory");
        assert_eq!((ram.bytes(), ram.part_bytes(), ram.parts().len()), (3 * 4096, 4096, 3));
        let content = [7; 4096 + 2];
        ram.write(4095, &content).expect("write across three parts");
        let mut read = [0; 4096 + 4];
        ram.read(4094, &mut read).expect("read it");
        assert_eq!((read[0], &read[1..4096 + 3], read[4096 + 3]), (0, &content[..], 0));
        assert!(ram.write(3 * 4096 - 1, b"ab").is_err() && ram.write(u64::MAX, b"a").is_err());
    }
}
