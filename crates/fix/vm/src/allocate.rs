//! Boxes whose allocation fails instead of aborting when memory is exhausted.

use alloc::alloc::{Layout, alloc};
use alloc::boxed::Box;
use core::mem::MaybeUninit;
use core::ptr::NonNull;

use crate::error::OutOfMemory;

/// Moves `value` into a new box.
pub(crate) fn try_box<T>(value: T) -> Result<Box<T>, OutOfMemory> {
    let mut new = try_box_uninit::<T>()?;
    new.write(value);
    // SAFETY: it was initialized above.
    Ok(unsafe { new.assume_init() })
}

/// Allocates a box without content.
pub(crate) fn try_box_uninit<T>() -> Result<Box<MaybeUninit<T>>, OutOfMemory> {
    // SAFETY: no type that is boxed here has size zero.
    let new = unsafe { alloc(Layout::new::<T>()) }.cast::<MaybeUninit<T>>();
    // SAFETY: it was allocated with the layout of a box of `T`, and may be uninitialized.
    NonNull::new(new).map(|new| unsafe { Box::from_raw(new.as_ptr()) }).ok_or(OutOfMemory)
}
