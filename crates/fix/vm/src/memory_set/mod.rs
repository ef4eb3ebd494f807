//! The interface of the crate [memory_set] 0.4, for kernels that are written against it, as ArceOS is.
//!
//! ```
//! // use memory_set::{MappingBackend, MemoryArea, MemorySet};
//! use knee_vm::memory_set::{MappingBackend, MemoryArea, MemorySet};
//! ```
//!
//! is the change in code that uses it: names, signatures and results are the same. What it takes to come
//! to knee-vm from there is three steps, each of which runs.
//!
//! 1. **The `use` alone.** [`MemorySet`] is a sorted map of areas above page tables of the kernel's own, as
//!    there. To unmap or protect looks at the areas that are concerned, and not at all that there are.
//! 2. **[`SpaceTable`] as the page table**, with [`Anonymous`] as the backend of memory of the space's own.
//!    Tables, frames, copies on write and the flush of other CPUs are knee-vm's. So page faults go to
//!    [`Space::fault`](crate::Space::fault), which does not need the lock around the set, as do
//!    `fork` and `populate`.
//! 3. **Without the set.** A [`Space`](crate::Space) knows what is mapped where. The lock that all changes
//!    of a set need, as they take it by `&mut`, is what does not scale, and goes with it:
//!    [`map_anywhere`](crate::Space::map_anywhere) is `find_free_area` and `map`,
//!    [`query`](crate::Space::query) is `find`.
//!
//! ```
//! use std::sync::Arc;
//!
//! use knee_vm::hosted::Hosted;
//! use knee_vm::memory_set::{Anonymous, MemoryArea, MemorySet, SpaceTable};
//! use knee_vm::{Protection, Space, VirtAddr};
//! use memory_addr::va;
//!
//! let machine = Hosted::new(1024, 1);
//! let cpu = machine.cpu(0);
//! let space = Arc::new(Space::new(&cpu).unwrap());
//! let mut table = SpaceTable::new(&space, &cpu);
//!
//! let mut set = MemorySet::new();
//! let area = MemoryArea::new(va!(0x10_0000), 0x4000, Protection::READ_WRITE, Anonymous::default());
//! set.map(area, &mut table, false).unwrap();
//! cpu.store(&*space, VirtAddr(0x10_2000), 42).unwrap(); // The CPU faults; the set is not asked.
//! set.unmap(va!(0x10_1000), 0x2000, &mut table).unwrap();
//! assert_eq!(set.len(), 2);
//! assert!(cpu.load(&*space, VirtAddr(0x10_2000)).is_err());
//! # drop(table);
//! ```
//!
//! # What differs
//! * Of several areas that an unmapping concerns, the backend is asked in the order of addresses; there
//!   it is whole areas first.
//! * A backend that cannot unmap a whole area is [`MappingError::BadState`], and a panic there. What was
//!   unmapped before it is gone from the set, and the rest is in it.
//! * [`MemorySet::find_free_area`] finds nothing that ends beyond the limit; there only the last gap is
//!   held against it.
//! * To protect no bytes is nothing; there it leaves an empty area where an area was divided.
//!
//! As there, what [`MappingBackend::protect`] returns is not looked at: backends that map lazily
//! say no where nothing is present.
//!
//! Addresses are those of [memory_addr], the one crate that this needs; the feature `memory_set` has it.
//!
//! [memory_set]: https://docs.rs/memory_set/0.4.1
//! [memory_addr]: https://docs.rs/memory_addr/0.4.1

mod area;
mod backend;
mod set;
mod space;

use core::fmt;

pub use area::MemoryArea;
pub use backend::MappingBackend;
pub use set::MemorySet;
pub use space::{Anonymous, SpaceTable};

/// Why a mapping could not be changed.
#[derive(Debug, PartialEq, Eq)]
pub enum MappingError {
    /// A range that is empty, or goes beyond all addresses.
    InvalidParam,
    /// Something is mapped there.
    AlreadyExists,
    /// The backend could not do it.
    BadState,
}

impl fmt::Display for MappingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            MappingError::InvalidParam => "the range is empty, or goes beyond all addresses",
            MappingError::AlreadyExists => "something is mapped there",
            MappingError::BadState => "the backend could not do it",
        })
    }
}

impl core::error::Error for MappingError {}

/// What operations return.
pub type MappingResult<T = ()> = Result<T, MappingError>;
