//! Values that no two CPUs share a line for.

use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::error::OutOfMemory;

/// A value in lines of its own: two, as CPUs fetch them in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Padded<T>(pub(crate) T);

/// So many.
pub(crate) fn for_each<T: Default>(count: usize) -> Result<Box<[T]>, OutOfMemory> {
    let mut all = Vec::new();
    all.try_reserve_exact(count)?;
    all.resize_with(count, T::default);
    Ok(all.into_boxed_slice())
}
