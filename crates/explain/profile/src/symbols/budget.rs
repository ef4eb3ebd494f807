//! A limit on the memory for the names of a capture.
//!
//! A capture of the whole machine may contain any number of processes. Each of them may have a map of its
//! just-in-time compiler, and run a program that other users can change, which knee copies.

use std::fs::File;

use knee_host::mapping::copy;
use knee_host::regular_file::FileError;

/// The most bytes of maps and copies together. A server has a few megabytes of maps, and a program with symbols a
/// hundred.
const MOST_BYTES: u64 = 512 << 20;

/// What is left of the memory for names.
#[derive(Debug)]
pub(super) struct Budget {
    left: u64,
    /// Files whose names are missing because the memory was not enough.
    pub(super) left_out: u64,
}

impl Default for Budget {
    fn default() -> Budget {
        Budget::of(MOST_BYTES)
    }
}

impl Budget {
    pub(super) fn of(bytes: u64) -> Budget {
        Budget { left: bytes, left_out: 0 }
    }

    /// The bytes that are left.
    pub(super) fn left(&self) -> u64 {
        self.left
    }

    /// Takes this many bytes.
    pub(super) fn take(&mut self, bytes: u64) {
        self.left = self.left.saturating_sub(bytes);
    }

    /// A copy of a file of names. `None` if it cannot be copied.
    pub(super) fn copy(&mut self, file: File) -> Option<File> {
        match copy(file, self.left) {
            Ok(copy) => {
                self.take(copy.metadata().ok()?.len());
                Some(copy)
            }
            Err(FileError::TooLarge(_)) => {
                self.left_out += 1;
                None
            }
            Err(_) => None,
        }
    }
}
