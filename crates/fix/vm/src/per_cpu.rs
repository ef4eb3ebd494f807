//! Arrays with one value per CPU.

use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::error::OutOfMemory;

/// Allocates `count` default values.
pub(crate) fn for_each<T: Default>(count: usize) -> Result<Box<[T]>, OutOfMemory> {
    let mut all = Vec::new();
    all.try_reserve_exact(count)?;
    all.resize_with(count, T::default);
    Ok(all.into_boxed_slice())
}
