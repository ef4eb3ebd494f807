//! How the TLBs of the hosted machine behave on each architecture.

use crate::machine::format::{AArch64, Format, RiscV, X86_64};

mod sealed {
    pub trait Sealed {}
}

/// An architecture that the [hosted machine](super::Hosted) models: its page-table format, and what its TLBs
/// cache.
///
/// Each model caches everything that the manual allows, for as long as the manual allows, so that the first
/// access after a missing flush exposes the mistake. Translations are tagged with the identifier of their
/// space, like a PCID or an ASID, so they survive a switch to another space. Identifiers are never reused.
pub trait Architecture: Format + sealed::Sealed {
    /// If true, the CPU walks the tables before it raises a page fault, and the fault drops the cached
    /// translation. If false, a cached entry that denies the access stays, and every such access faults until
    /// software invalidates the entry.
    #[doc(hidden)]
    const FAULT_DROPS_ENTRY: bool;
    /// Whether the TLB caches absent entries, so that accesses fault until software invalidates these
    /// entries.
    #[doc(hidden)]
    const CACHES_ABSENT: bool;
    /// Whether cached non-leaf entries survive a [`Flush::Range`](crate::Flush::Range). On x86-64, `invlpg`
    /// drops the non-leaf entries for all addresses.
    #[doc(hidden)]
    const CACHES_TABLES: bool;

    /// The accessed bit, if the hardware sets it. If this is `None`, an access to a page whose accessed bit
    /// is clear raises a page fault.
    #[doc(hidden)]
    const SETS_ACCESSED: Option<u64>;

    /// Returns whether this page entry matches in all address spaces.
    #[doc(hidden)]
    fn is_global(entry: u64) -> bool;
}

/// Intel, "Software Developer's Manual", volume 3, 4.10: a page fault drops the translation of its page, and
/// absent entries are never cached.
impl Architecture for X86_64 {
    const FAULT_DROPS_ENTRY: bool = true;
    const CACHES_ABSENT: bool = false;
    const CACHES_TABLES: bool = false;
    const SETS_ACCESSED: Option<u64> = Some(1 << 5);

    fn is_global(entry: u64) -> bool {
        entry & 1 << 8 != 0
    }
}

/// Arm, "Architecture Reference Manual", D8.16: absent entries are never cached. An entry that lacks a
/// permission may be cached, and survives a permission fault. `tlbi vale1` keeps cached non-leaf entries.
impl Architecture for AArch64 {
    const FAULT_DROPS_ENTRY: bool = false;
    const CACHES_ABSENT: bool = false;
    const CACHES_TABLES: bool = true;
    /// Without FEAT_HAFDBS.
    const SETS_ACCESSED: Option<u64> = None;

    fn is_global(entry: u64) -> bool {
        // The bit is nG, "not global".
        entry & 1 << 11 == 0
    }
}

/// RISC-V, "Privileged Architecture", 12.2.1 (`sfence.vma`): any entry, even an absent one, may be cached
/// until a fence. A fence with an address orders only leaf entries.
impl<const LEVELS: u8, const SVPBMT: bool> Architecture for RiscV<LEVELS, SVPBMT> {
    const FAULT_DROPS_ENTRY: bool = false;
    const CACHES_ABSENT: bool = true;
    const CACHES_TABLES: bool = true;
    /// Svade.
    const SETS_ACCESSED: Option<u64> = None;

    fn is_global(entry: u64) -> bool {
        entry & 1 << 5 != 0
    }
}

impl sealed::Sealed for X86_64 {}
impl sealed::Sealed for AArch64 {}
impl<const LEVELS: u8, const SVPBMT: bool> sealed::Sealed for RiscV<LEVELS, SVPBMT> {}
