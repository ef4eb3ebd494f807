//! The interface of the crate [memory_set] 0.4, for kernels that use that crate today, such as ArceOS. Such
//! a kernel changes one line:
//!
//! ```
//! // use memory_set::{MappingBackend, MemoryArea, MemorySet};
//! use knee_vm::memory_set::{MappingBackend, MemoryArea, MemorySet};
//! ```
//!
//! Names, signatures and results are the same. A kernel can move from memory_set to knee-vm in three steps,
//! and it works after each of them.
//!
//! 1. **The `use` alone.** As in memory_set, [`MemorySet`] is a sorted map of areas on top of the kernel's
//!    own page tables. Unlike in memory_set, `unmap` and `protect` visit only the areas that overlap their
//!    range.
//! 2. **[`SpaceTable`] as the page table**, with [`Anonymous`] as the backend of anonymous memory. knee-vm
//!    then manages tables, frames, copy-on-write and shootdowns. The kernel's page-fault handler must call
//!    [`Space::fault`](crate::Space::fault), which, like `fork` and `populate`, does not need the lock around
//!    the set.
//! 3. **Without the set.** A [`Space`](crate::Space) itself records what is mapped. The set takes `&mut self`
//!    for every change and so needs a lock, which does not scale. Without the set, this lock is gone:
//!    [`map_anywhere`](crate::Space::map_anywhere) replaces `find_free_area` and `map`, and
//!    [`query`](crate::Space::query) replaces `find`.
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
//! cpu.store(&*space, VirtAddr(0x10_2000), 42).unwrap(); // The CPU faults; the handler does not use the set.
//! set.unmap(va!(0x10_1000), 0x2000, &mut table).unwrap();
//! assert_eq!(set.len(), 2);
//! assert!(cpu.load(&*space, VirtAddr(0x10_2000)).is_err());
//! # drop(table);
//! ```
//!
//! # What differs
//! * If a range overlaps several areas, `unmap` calls their backends in ascending order of address;
//!   memory_set first unmaps the areas that are entirely within the range.
//! * If a backend cannot unmap a whole area, the result is [`MappingError::BadState`]; memory_set panics.
//!   The areas that were already unmapped are gone from the set, and the others remain.
//! * [`MemorySet::find_free_area`] never returns an area that ends beyond the limit; memory_set checks only
//!   the last gap against the limit.
//! * `protect` with a size of 0 does nothing; in memory_set it may split an area and leave an empty area
//!   behind.
//!
//! As in memory_set, the result of [`MappingBackend::protect`] is ignored: a backend that maps lazily returns
//! false if no page is present yet, and this is not an error.
//!
//! Addresses have the types of the crate [memory_addr], the only dependency of the feature `memory_set`.
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
    /// The range is empty, or its end overflows.
    InvalidParam,
    /// A part of the range is already mapped.
    AlreadyExists,
    /// The backend failed.
    BadState,
}

impl fmt::Display for MappingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            MappingError::InvalidParam => "the range is empty, or its end overflows",
            MappingError::AlreadyExists => "a part of the range is already mapped",
            MappingError::BadState => "the backend could not change the page tables",
        })
    }
}

impl core::error::Error for MappingError {}

/// The result of an operation.
pub type MappingResult<T = ()> = Result<T, MappingError>;
