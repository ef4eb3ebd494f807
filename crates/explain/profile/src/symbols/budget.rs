//! Limits on the memory and the time for the names of a capture.
//!
//! A capture of the whole machine may contain any number of processes. Each of them may have a map of its
//! just-in-time compiler, and run a program that other users can change, which knee copies.

use std::fs::File;

use knee_host::mapping::copy;
use knee_host::regular_file::FileError;

/// The most bytes of maps and copies together. A server has a few megabytes of maps, and a program with symbols a
/// hundred.
const MOST_BYTES: u64 = 512 << 20;

/// The most steps in which symbols are found in copies; see [`super::search`]. They take some ten seconds. A library
/// that imports 1,000 functions takes 3,000 steps for an address, and a capture has up to a million addresses.
const MOST_STEPS: u64 = 4_000_000_000;

/// What is left of the memory and the time for names.
#[derive(Debug)]
pub(super) struct Budget {
    left: u64,
    pub(super) steps: u64,
    /// Files whose names are missing because the memory or the time was not enough.
    pub(super) left_out: u64,
}

impl Default for Budget {
    fn default() -> Budget {
        Budget::of(MOST_BYTES)
    }
}

impl Budget {
    pub(super) fn of(bytes: u64) -> Budget {
        Budget { left: bytes, steps: MOST_STEPS, left_out: 0 }
    }

    /// The bytes that are left.
    pub(super) fn left(&self) -> u64 {
        self.left
    }

    /// Takes this many bytes.
    pub(super) fn take(&mut self, bytes: u64) {
        self.left = self.left.saturating_sub(bytes);
    }

    /// Takes this many steps to find a symbol in a copy, and returns whether there were so many, and memory for its
    /// name. If not, a file is left out.
    pub(super) fn take_steps(&mut self, steps: u64) -> bool {
        let left = self.steps.checked_sub(steps).filter(|_| self.left > 0);
        self.left_out += u64::from(left.is_none());
        self.steps = left.unwrap_or(self.steps);
        left.is_some()
    }

    /// A copy of a file of names. `None` if it cannot be copied.
    pub(super) fn copy(&mut self, file: File) -> Option<File> {
        let length = file.metadata().ok()?.len();
        match copy(file, self.left) {
            Ok(copy) => {
                self.take(copy.metadata().ok()?.len());
                Some(copy)
            }
            Err(FileError::TooLarge(_)) => {
                self.left_out += 1;
                None
            }
            Err(FileError::Empty) => None,
            Err(_) => {
                // Some of it may have been read.
                self.take(length);
                None
            }
        }
    }
}
