//! Fallible allocation of boxes: returns an error when memory is exhausted, instead of aborting.

use alloc::alloc::{Layout, alloc};
use alloc::boxed::Box;
use core::mem::MaybeUninit;
use core::ptr::NonNull;

use crate::error::OutOfMemory;

/// Moves `value` into a new box.
pub(crate) fn try_box<T>(value: T) -> Result<Box<T>, OutOfMemory> {
    let mut new = try_box_uninit::<T>()?;
    new.write(value);
    // SAFETY: `new` was initialized above.
    Ok(unsafe { new.assume_init() })
}

/// Allocates a box with uninitialized content.
pub(crate) fn try_box_uninit<T>() -> Result<Box<MaybeUninit<T>>, OutOfMemory> {
    // SAFETY: no caller boxes a zero-sized type.
    let new = unsafe { alloc(Layout::new::<T>()) }.cast::<MaybeUninit<T>>();
    // SAFETY: `new` was allocated with the layout of `T`, and its content may be uninitialized.
    NonNull::new(new).map(|new| unsafe { Box::from_raw(new.as_ptr()) }).ok_or(OutOfMemory)
}
