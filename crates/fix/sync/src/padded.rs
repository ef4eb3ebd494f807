//! Values in cache lines of their own.

use core::ops::Deref;

/// A value in cache lines of its own: 128 bytes, as Intel's CPUs fetch lines of 64 in pairs, and as some of
/// Apple's and IBM's have lines of 128.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Padded<T>(pub T);

impl<T> Deref for Padded<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}
