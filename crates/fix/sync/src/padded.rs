//! Values in cache lines of their own.

use core::ops::Deref;

/// A value in cache lines of its own. It is aligned to 128 bytes, because Intel's CPUs fetch lines of 64
/// bytes in pairs, and some of Apple's and IBM's CPUs have lines of 128 bytes.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Padded<T>(pub T);

impl<T> Deref for Padded<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}
