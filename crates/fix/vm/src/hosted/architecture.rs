//! How the TLBs of a hosted machine behave, by architecture.

use crate::machine::format::{AArch64, Format, RiscV, X86_64};

mod sealed {
    pub trait Sealed {}
}

/// An architecture that the [hosted machine](super::Hosted) models: the format of its page tables, and what its
/// TLBs may keep.
///
/// Every model caches as much as its manual allows and for as long as it allows, so that a missing flush
/// shows on the first access. Translations are tagged with the number of their space, and
/// stay when a CPU goes to another space, as with PCIDs and ASIDs that are never reused.
pub trait Architecture: Format + sealed::Sealed {
    /// Whether a page fault drops the translation that it came from, and the CPU walks the tables before it
    /// raises one. Otherwise a cached entry that denies the access stays, and every access faults, until software
    /// invalidates it.
    #[doc(hidden)]
    const FAULT_DROPS_ENTRY: bool;
    /// Whether a walk that ends at an absent entry is cached, and faults until software invalidates it.
    #[doc(hidden)]
    const CACHES_ABSENT: bool;
    /// Whether a flush of [`Flush::Range`](crate::Flush::Range) leaves what is cached of tables. On x86-64 `invlpg` drops
    /// that for all addresses.
    #[doc(hidden)]
    const CACHES_TABLES: bool;

    /// Whether this entry for a page matches in all address spaces.
    #[doc(hidden)]
    fn is_global(entry: u64) -> bool;
}

/// Intel, "Software Developer's Manual", volume 3, 4.10: a page fault drops the translation of its page, absent
/// entries are never cached.
impl Architecture for X86_64 {
    const FAULT_DROPS_ENTRY: bool = true;
    const CACHES_ABSENT: bool = false;
    const CACHES_TABLES: bool = false;

    fn is_global(entry: u64) -> bool {
        entry & 1 << 8 != 0
    }
}

/// Arm, "Architecture Reference Manual", D8.16: absent entries are never cached. One that lacks a permission may be, and
/// a permission fault leaves it there. `tlbi vale1` leaves what is cached of tables.
impl Architecture for AArch64 {
    const FAULT_DROPS_ENTRY: bool = false;
    const CACHES_ABSENT: bool = false;
    const CACHES_TABLES: bool = true;

    fn is_global(entry: u64) -> bool {
        // The bit is nG, "not global".
        entry & 1 << 11 == 0
    }
}

/// RISC-V, "Privileged Architecture", 12.2.1 (`sfence.vma`): any entry may be cached, absent ones too, until a fence. A fence with an address
/// orders entries for pages alone.
impl<const LEVELS: u8> Architecture for RiscV<LEVELS> {
    const FAULT_DROPS_ENTRY: bool = false;
    const CACHES_ABSENT: bool = true;
    const CACHES_TABLES: bool = true;

    fn is_global(entry: u64) -> bool {
        entry & 1 << 5 != 0
    }
}

impl sealed::Sealed for X86_64 {}
impl sealed::Sealed for AArch64 {}
impl<const LEVELS: u8> sealed::Sealed for RiscV<LEVELS> {}
