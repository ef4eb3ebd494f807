//! A guest's memory, as it is at the moment.
//!
//! QEMU keeps it in a file that knee has too. So what the kernel has in memory can be looked at from
//! outside, while it runs, and nothing in the guest has to answer.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use crate::memfd;

/// Memory of a guest, by physical address: a PC with at most 3 GiB has it in one piece from 0 on.
#[derive(Clone, Debug)]
pub struct Ram {
    file: Arc<File>,
    bytes: u64,
}

impl Ram {
    /// Memory full of zeroes, which takes no room until it is written.
    pub(crate) fn new(name: &str, bytes: u64) -> io::Result<Ram> {
        Ok(Ram { file: Arc::new(memfd::zeroes(name, bytes)?), bytes })
    }

    /// Its size in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Fills `to` with what is at a physical address now. The guest may be changing it.
    pub fn read(&self, physical: u64, to: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(to, physical)
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
        assert!(ram.read(4092, &mut read).is_err());
    }
}
