//! What can go wrong.

use alloc::collections::TryReserveError;
use core::fmt;

/// There is no memory for what was asked. Nothing has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutOfMemory;

impl fmt::Display for OutOfMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("there is no memory for it")
    }
}

impl core::error::Error for OutOfMemory {}

impl From<TryReserveError> for OutOfMemory {
    fn from(_: TryReserveError) -> OutOfMemory {
        OutOfMemory
    }
}

/// Why a map could not be changed. Nothing has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MapError {
    /// There is no memory for nodes of the map.
    OutOfMemory,
    /// The range has no pages.
    Empty,
    /// Pages beyond the end of the space.
    OutOfRange,
    /// Some of the pages are not mapped, as all have to be; [guards](crate::Protection::GUARD) are not.
    Unmapped,
    /// A [guard](crate::Protection::GUARD) was asked for where none can be: they come by
    /// [`map`](crate::Space::map), and are of no object.
    Guard,
    /// An object cannot have pages of so great a number (`EOVERFLOW`).
    BeyondObject,
    /// Where pages are and where they are to move overlap.
    Overlap,
    /// Something is mapped there.
    Occupied,
    /// There is no free range of that size.
    NoAddressSpace,
    /// The space's [`Quota`](crate::Quota) does not allow so many pages more.
    QuotaExceeded,
}

impl From<OutOfMemory> for MapError {
    fn from(_: OutOfMemory) -> MapError {
        MapError::OutOfMemory
    }
}

impl fmt::Display for MapError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            MapError::OutOfMemory => "no memory for nodes of the map",
            MapError::Empty => "there are no pages in the range",
            MapError::OutOfRange => "the pages are not within the space",
            MapError::Unmapped => "some of the pages are not mapped",
            MapError::Guard => "guards come by map, and are of no object",
            MapError::BeyondObject => "no object has pages of such numbers",
            MapError::Overlap => "the pages overlap with where they are to move",
            MapError::Occupied => "something is mapped there",
            MapError::NoAddressSpace => "no free range of that size",
            MapError::QuotaExceeded => "the quota does not allow so many pages more",
        })
    }
}

impl core::error::Error for MapError {}

/// An object cannot become as long as was asked. Nothing has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BeyondCapacity {
    /// How many pages it may have, [`Object::capacity`](crate::Object::capacity).
    pub capacity: u64,
}

impl fmt::Display for BeyondCapacity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the object may have {} pages at most", self.capacity)
    }
}

impl core::error::Error for BeyondCapacity {}

/// Why an access could not go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Nothing is mapped there (SIGSEGV, `SEGV_MAPERR`).
    Unmapped,
    /// What is mapped does not allow it (SIGSEGV, `SEGV_ACCERR`).
    AccessDenied,
    /// It is a [guard](crate::Protection::GUARD): somebody has gone beyond the end of what is next to it.
    Guard,
    /// There is no frame for it.
    OutOfMemory,
    /// The object that is mapped there ends before (SIGBUS, `BUS_ADRERR`).
    BeyondEnd,
    /// The page is on its way in or out: the access is to be tried again, after whatever the CPU has to do
    /// meanwhile.
    Retry,
    /// The object's pager has failed (SIGBUS).
    PagerFailed,
}

impl From<OutOfMemory> for Fault {
    fn from(_: OutOfMemory) -> Fault {
        Fault::OutOfMemory
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Fault::Unmapped => "nothing is mapped there",
            Fault::AccessDenied => "what is mapped there does not allow it",
            Fault::Guard => "it is a guard",
            Fault::OutOfMemory => "there is no frame for it",
            Fault::BeyondEnd => "the object that is mapped there ends before",
            Fault::Retry => "the page is on its way",
            Fault::PagerFailed => "the object's pager has failed",
        })
    }
}

impl core::error::Error for Fault {}
