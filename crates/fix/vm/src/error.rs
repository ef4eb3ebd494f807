//! Error types.

use alloc::collections::TryReserveError;
use core::fmt;

/// An allocation failed. The operation has changed nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutOfMemory;

impl fmt::Display for OutOfMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("out of memory")
    }
}

impl core::error::Error for OutOfMemory {}

impl From<TryReserveError> for OutOfMemory {
    fn from(_: TryReserveError) -> OutOfMemory {
        OutOfMemory
    }
}

/// Why an operation on a space failed. Unless its documentation says otherwise, the operation has changed
/// nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum MapError {
    /// An allocation failed.
    OutOfMemory,
    /// The range is empty.
    Empty,
    /// The range extends beyond the space, or the frame numbers of a device do not fit into a page-table
    /// entry.
    OutOfRange,
    /// The operation requires a fully mapped range, but this range has a hole.
    /// [Guards](crate::Protection::GUARD) count as unmapped.
    Unmapped,
    /// The operation does not support [guards](crate::Protection::GUARD): only [`map`](crate::Space::map)
    /// creates them, and they cannot be pages of an object.
    Guard,
    /// The mapping would extend beyond the largest page number of an object (`EOVERFLOW`).
    BeyondObject,
    /// The old and the new range of a moved mapping overlap.
    Overlap,
    /// A page of the range is already mapped.
    Occupied,
    /// There is no free range of the requested size.
    NoAddressSpace,
    /// The space's [`Quota`](crate::Quota) would be exceeded.
    QuotaExceeded,
    /// A private page of the range is [pinned](crate::Space::pin).
    Pinned,
    /// [Device memory](crate::Object::of_device) cannot be mapped [privately](crate::Sharing::Private),
    /// because a store would go to a copy and not to the device.
    Device,
}

impl From<OutOfMemory> for MapError {
    fn from(_: OutOfMemory) -> MapError {
        MapError::OutOfMemory
    }
}

impl fmt::Display for MapError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            MapError::OutOfMemory => "out of memory",
            MapError::Empty => "the range is empty",
            MapError::OutOfRange => "the range extends beyond the address space",
            MapError::Unmapped => "a page of the range is not mapped",
            MapError::Guard => "the operation does not support guard pages",
            MapError::BeyondObject => "the mapping extends beyond the largest object",
            MapError::Overlap => "the old and the new range overlap",
            MapError::Occupied => "a page of the range is already mapped",
            MapError::NoAddressSpace => "no free range is large enough",
            MapError::QuotaExceeded => "the quota would be exceeded",
            MapError::Pinned => "a page of the range is pinned",
            MapError::Device => "device memory cannot be mapped privately",
        })
    }
}

impl core::error::Error for MapError {}

/// Why an object cannot have the requested size. Nothing has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ResizeError {
    /// The size exceeds [`Object::capacity`](crate::Object::capacity), which is this number of pages.
    BeyondCapacity(u64),
    /// A page beyond the new end is [pinned](crate::Space::pin).
    Pinned,
}

impl fmt::Display for ResizeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ResizeError::BeyondCapacity(capacity) => {
                write!(f, "the capacity of the object is {capacity} pages")
            }
            ResizeError::Pinned => f.write_str("a page beyond the new end is pinned"),
        }
    }
}

impl core::error::Error for ResizeError {}

/// Why a page fault was not resolved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// The page is not mapped (SIGSEGV, `SEGV_MAPERR`).
    Unmapped,
    /// The mapping does not allow the access (SIGSEGV, `SEGV_ACCERR`).
    AccessDenied,
    /// The page is a [guard](crate::Protection::GUARD): the access overran an adjacent mapping.
    Guard,
    /// An allocation failed.
    OutOfMemory,
    /// The page is beyond the end of the mapped object (SIGBUS, `BUS_ADRERR`).
    BeyondEnd,
    /// The page is being brought in, evicted or swapped out. The CPU may do other work before it retries the
    /// access.
    Retry,
    /// The pager of the object or of the [`Swap`](crate::Swap) area failed (SIGBUS).
    PagerFailed,
    /// The kernel cannot access the page for the program, because the page is [device
    /// memory](crate::Object::of_device), which [`Machine::address`](crate::Machine::address) does not cover
    /// (`EFAULT`).
    Device,
}

impl From<OutOfMemory> for Fault {
    fn from(_: OutOfMemory) -> Fault {
        Fault::OutOfMemory
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Fault::Unmapped => "the page is not mapped",
            Fault::AccessDenied => "the mapping does not allow the access",
            Fault::Guard => "the page is a guard page",
            Fault::OutOfMemory => "out of memory",
            Fault::BeyondEnd => "the page is beyond the end of the mapped object",
            Fault::Retry => "the page is being brought in or evicted; retry the access",
            Fault::PagerFailed => "the pager failed",
            Fault::Device => "the page is device memory",
        })
    }
}

impl core::error::Error for Fault {}

/// [`Space::read`](crate::Space::read) or [`write`](crate::Space::write) has copied only some of the bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartialCopy {
    /// The number of bytes that were copied, from the beginning of the range.
    pub copied: usize,
    /// The fault at the first byte that was not copied.
    pub fault: Fault,
}

impl fmt::Display for PartialCopy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes were copied; then {}", self.copied, self.fault)
    }
}

impl core::error::Error for PartialCopy {}
