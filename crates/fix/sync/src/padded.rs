//! Apart from others.

use core::ops::Deref;

/// A value in lines of its own. Two lines: Intel's CPUs fetch them in pairs, and some of Apple's and
/// IBM's have lines of 128 bytes.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Padded<T>(pub(crate) T);

impl<T> Deref for Padded<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}
