//! Page-table entry formats of the supported architectures.

use knee_sync::shim::{AtomicU64, is_mutant};

use crate::page::{BITS, ENTRIES, Frame, Page, Pages, Protection};

/// A page table.
pub(crate) type Table = [AtomicU64; ENTRIES];

/// A decoded page-table entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Entry {
    /// Not present: an access faults.
    Absent,
    /// A resident page that currently allows no access. The hardware treats the entry as not present.
    ProtNone(Frame),
    /// A page whose shootdown is in progress: TLBs of other CPUs may still hold the old translation. The
    /// hardware treats the entry as not present. The operation that waits for the shootdown will replace the
    /// entry.
    FlushPending(Frame),
    /// A private page that was swapped out. The hardware treats the entry as not present.
    Swapped {
        /// The slot of the space's [`Swap`](crate::Swap) that has the content.
        slot: u64,
        /// Whether the page may have been written since its [usage](crate::Space::usage) was last cleared.
        dirty: bool,
    },
    /// A pointer to the next-level table.
    Table(Frame),
    /// A page.
    Page {
        /// The frame of the page.
        frame: Frame,
        /// The accesses that the hardware allows.
        protection: Protection,
        /// The accessed bit: set in new entries, and set again by the first access after
        /// [`Format::clear_accessed`].
        accessed: bool,
        /// The dirty bit: the page may have been written.
        dirty: bool,
    },
    /// A page of [device memory](crate::Object::of_device).
    Device {
        /// The frame of the page.
        frame: Frame,
        /// The accesses that the hardware allows.
        protection: Protection,
    },
}

/// How CPUs access [device memory](crate::Object::of_device).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MemoryType {
    /// As ordinary memory, cached and coherent. For memory that the machine does not allocate, such as
    /// persistent memory.
    WriteBack,
    /// Not cached. Loads may be speculative, and stores may be combined and delayed. For frame buffers.
    WriteCombining,
    /// Not cached, and each access reaches the device once and in program order. For device registers.
    Device,
}

/// The absent entry, 0 in all formats.
pub const ABSENT: u64 = 0;

/// Which TLB entries may survive the page fault that they caused. The fault handler must flush such an
/// entry; otherwise the CPU raises the same fault forever.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultFlush {
    /// None: the fault itself drops the entry, and absent entries are never cached.
    Never,
    /// Entries of present pages that denied the access.
    IfPresent,
    /// Entries of present pages that denied the access, and entries of absent pages.
    Always,
}

/// A page-table format with 512 entries of 64 bits per table.
///
/// CPUs may cache entries in their TLBs. This crate does not reuse an unmapped frame or page until
/// [`Machine::shoot_down`](crate::Machine::shoot_down) has returned or, in a [lazy](crate::Space::set_lazy)
/// space, until all CPUs have ticked. [`Space::fault`](crate::Space::fault) flushes entries that would raise
/// the same fault again, as [`FAULT_FLUSH`](Format::FAULT_FLUSH) requires. An entry that grants more access,
/// or makes an absent page present, is stored without a shootdown: if a CPU has cached the old entry, the
/// CPU faults once.
///
/// # Safety
/// This crate frees, reads and writes the frames that [`read`](Format::read) returns. For each frame of the
/// machine and each level, an implementation must guarantee:
/// * For an entry made by [`table`](Format::table), [`page`](Format::page), [`prot_none`](Format::prot_none)
///   or [`flush_pending`](Format::flush_pending), `read` returns the same variant and frame, and a protection
///   that allows no access beyond the encoded protection.
/// * For an entry made by [`swapped`](Format::swapped), `read` returns the same flag, and the same slot if it
///   is below 2⁵².
/// * `read` still returns the same variant, frame and protection after the hardware sets the accessed or
///   dirty bit.
/// * For an entry made by [`device`](Format::device), `read` returns [`Entry::Device`] with the same frame
///   and protection.
/// * For an entry made by [`large`](Format::large), `read` returns the variant, frame and protection of the
///   original entry, at levels 1 and 2.
/// * `read` returns [`Entry::Absent`] for [`ABSENT`], at all levels.
/// * The hardware interprets entries made by `table`, `page`, `device` and `large` as `read` does, and allows
///   no access to a page beyond the given protection. The hardware treats entries made by `prot_none`,
///   `flush_pending` and `swapped` as not present.
/// * [`pages`](Format::pages) contains only pages that a root of [`LEVELS`](Format::LEVELS) levels can map,
///   and none whose root entries belong to the kernel.
pub unsafe trait Format: Sync + 'static {
    /// The number of table levels, the root included.
    const LEVELS: u8;

    /// Whether one root table covers both halves of the address space: the kernel owns the upper half of the
    /// root table's entries, and a space manages the lower half.
    const HAS_KERNEL: bool = false;

    /// What the page-fault handler must flush on the faulting CPU. The default is correct for any hardware.
    const FAULT_FLUSH: FaultFlush = FaultFlush::Always;

    /// The number of frames that [`device`](Format::device) can encode. Higher frame numbers do not fit into
    /// an entry.
    const FRAMES: u64;

    /// The pages that a space may map. Implementations should keep the default.
    #[inline]
    fn pages() -> Pages {
        let bits = BITS * u32::from(Self::LEVELS) - u32::from(Self::HAS_KERNEL);
        Pages::new(Page(0), 1 << bits)
    }

    /// Encodes a pointer to a table.
    fn table(frame: Frame) -> u64;

    /// Encodes a page that user programs may at least read. The entry must not be global: the hardware may
    /// use it only for the space whose tables contain it. This allows a kernel to keep TLB entries of several
    /// spaces, tagged by PCID or ASID. The accessed bit is set, and if `protection` allows writes, so is the
    /// dirty bit. So the hardware need not update the entry at the first access.
    fn page(frame: Frame, protection: Protection) -> u64;

    /// Encodes a page of device memory that user programs may at least read and never execute. A bit that the
    /// hardware ignores distinguishes the entry from an entry made by [`page`](Format::page). The entry must
    /// not be global, and its accessed and dirty bits are set.
    fn device(frame: Frame, protection: Protection, memory: MemoryType) -> u64;

    /// Turns an entry made by [`page`](Format::page), [`clear_accessed`](Format::clear_accessed) or
    /// [`device`](Format::device) into the entry of a large page: 2 MiB in a table of level 1, or 1 GiB in a
    /// table of level 2. The large page begins with the frame of `entry`, whose number is a multiple of the
    /// number of frames that the large page covers.
    fn large(entry: u64) -> u64;

    /// Returns a copy of `entry` whose accessed bit is clear. `entry` must have been made by
    /// [`page`](Format::page). The next access sets the accessed bit, or raises a page fault, which
    /// [`Space::fault`](crate::Space::fault) resolves.
    fn clear_accessed(entry: u64) -> u64;

    /// Encodes a resident page that allows no access. The lowest bit is clear, so the hardware treats the
    /// entry as not present and ignores the other bits.
    #[inline]
    fn prot_none(frame: Frame) -> u64 {
        frame.0 << 12 | PROT_NONE
    }

    /// Encodes a page whose shootdown is in progress.
    #[inline]
    fn flush_pending(frame: Frame) -> u64 {
        Self::prot_none(frame) | FLUSH_PENDING
    }

    /// Encodes a page that was swapped out to a slot below 2⁵².
    #[inline]
    fn swapped(slot: u64, dirty: bool) -> u64 {
        slot << 12 | swap_flags(dirty)
    }

    /// Encodes a page as [`page`](Format::page) if `protection` allows reads, and otherwise as
    /// [`prot_none`](Format::prot_none).
    #[inline]
    fn page_or_prot_none(frame: Frame, protection: Protection) -> u64 {
        match protection.contains(Protection::READ) {
            true => Self::page(frame, protection),
            false => Self::prot_none(frame),
        }
    }

    /// Decodes an entry that one of the functions above made, and in which the hardware may have set the
    /// accessed and dirty bits. `level` is 0 for leaf tables.
    fn read(entry: u64, level: u8) -> Entry;
}

/// Set in entries made by `prot_none`, to distinguish them from [`ABSENT`].
const PROT_NONE: u64 = 1 << 1;

/// Set, in addition to [`PROT_NONE`], in entries made by `flush_pending`.
const FLUSH_PENDING: u64 = 1 << 2;

/// Of the entries that the hardware treats as not present, only those made by `swapped` have this bit.
const SWAPPED: u64 = 1 << 3;

/// Set in entries made by `swapped` for dirty pages.
const SWAPPED_DIRTY: u64 = 1 << 4;

/// The flags of an entry made by `swapped`.
#[inline]
fn swap_flags(dirty: bool) -> u64 {
    SWAPPED | if dirty { SWAPPED_DIRTY } else { 0 }
}

/// Decodes an entry that the hardware treats as not present. The bits in `inverted` are inverted in all such
/// entries, except in [`ABSENT`].
#[inline]
fn read_absent(entry: u64, inverted: u64) -> Entry {
    let number = (entry ^ inverted) >> 12;
    match entry {
        ABSENT => Entry::Absent,
        _ if entry & SWAPPED != 0 => {
            Entry::Swapped { slot: number, dirty: entry & SWAPPED_DIRTY != 0 }
        }
        _ if entry & FLUSH_PENDING == 0 => Entry::ProtNone(Frame(number)),
        _ => Entry::FlushPending(Frame(number)),
    }
}

/// The physical-address field of x86-64 entries: bits 12 to 51.
const ADDRESS: u64 = 0x000f_ffff_ffff_f000;

/// x86-64 with four levels: Intel, "Software Developer's Manual", volume 3, 4.5.
///
/// [`MemoryType::WriteCombining`] uses entry 1 of the page attribute table, and [`MemoryType::Device`] uses
/// entry 3. A kernel must set entry 1 to write combining in `IA32_PAT` (Linux does the same) before it maps
/// write-combining memory. Entry 3 is uncacheable after a reset.
///
/// A CPU that is vulnerable to L1TF (L1 Terminal Fault, CVE-2018-3620) ignores the present bit while it
/// speculates. So a program can read the content of the L1 data cache at the physical address in an entry,
/// even if the entry is not present. Therefore all address bits of entries that are not present are inverted,
/// as in Linux's `pgtable-invert.h`. If a frame or slot number is in the lower half of the number range,
/// inversion turns it into a number in the upper half, where there is no memory. An affected CPU compares
/// only the address bits that its caches support. So all frame and slot numbers must be in the lower half of
/// what these bits can express: below 2³³ (32 TiB) if the CPU supports 46 bits.
#[derive(Debug)]
pub enum X86_64 {}

mod x86_64 {
    pub(super) const PRESENT: u64 = 1;
    pub(super) const WRITE: u64 = 1 << 1;
    pub(super) const USER: u64 = 1 << 2;
    /// PWT and PCD: the two low bits of the index into the page attribute table (PAT).
    pub(super) const WRITE_THROUGH: u64 = 1 << 3;
    pub(super) const CACHE_DISABLE: u64 = 1 << 4;
    pub(super) const ACCESSED: u64 = 1 << 5;
    pub(super) const DIRTY: u64 = 1 << 6;
    /// PS. In a leaf table, this bit belongs to the index into the page attribute table, and is never set.
    pub(super) const LARGE: u64 = 1 << 7;
    /// A bit that the hardware ignores.
    pub(super) const DEVICE: u64 = 1 << 9;
    pub(super) const NO_EXECUTE: u64 = 1 << 63;
}

// SAFETY: "Software Developer's Manual", volume 3, table 4-20. The address bits overlap no other field. Each
// kind of entry that is not present has a bit that is always set, so the entry differs from `ABSENT`,
// whatever its address bits are.
unsafe impl Format for X86_64 {
    const LEVELS: u8 = 4;
    const HAS_KERNEL: bool = true;
    /// "Software Developer's Manual", volume 3, 4.10.4.1 and 4.10.2.3.
    const FAULT_FLUSH: FaultFlush = FaultFlush::Never;
    const FRAMES: u64 = (ADDRESS >> 12) + 1;

    #[inline]
    fn table(frame: Frame) -> u64 {
        use x86_64::{PRESENT, USER, WRITE};
        frame.0 << 12 | PRESENT | WRITE | USER
    }

    #[inline]
    fn page(frame: Frame, protection: Protection) -> u64 {
        use x86_64::{ACCESSED, DIRTY, NO_EXECUTE, PRESENT, USER, WRITE};
        let mut entry = frame.0 << 12 | PRESENT | USER | ACCESSED;
        if protection.contains(Protection::WRITE) {
            entry |= WRITE | DIRTY;
        }
        if !protection.contains(Protection::EXECUTE) {
            entry |= NO_EXECUTE;
        }
        entry
    }

    #[inline]
    fn device(frame: Frame, protection: Protection, memory: MemoryType) -> u64 {
        use x86_64::{CACHE_DISABLE, DEVICE, DIRTY, WRITE_THROUGH};
        let index = match memory {
            MemoryType::WriteBack => 0,
            MemoryType::WriteCombining => WRITE_THROUGH,
            MemoryType::Device => CACHE_DISABLE | WRITE_THROUGH,
        };
        Self::page(frame, protection.difference(Protection::EXECUTE)) | index | DEVICE | DIRTY
    }

    #[inline]
    fn prot_none(frame: Frame) -> u64 {
        frame.0 << 12 ^ ADDRESS | PROT_NONE
    }

    #[inline]
    fn swapped(slot: u64, dirty: bool) -> u64 {
        slot << 12 ^ ADDRESS | swap_flags(dirty)
    }

    fn large(entry: u64) -> u64 {
        entry | x86_64::LARGE
    }

    #[inline]
    fn clear_accessed(entry: u64) -> u64 {
        entry & !x86_64::ACCESSED
    }

    #[inline(always)]
    fn read(entry: u64, level: u8) -> Entry {
        use x86_64::{ACCESSED, DEVICE, DIRTY, LARGE, NO_EXECUTE, PRESENT, WRITE};
        let frame = Frame((entry & ADDRESS) >> 12);
        if entry & PRESENT == 0 {
            return read_absent(entry, ADDRESS);
        }
        if level > 0 && entry & LARGE == 0 {
            return Entry::Table(frame);
        }
        let mut protection = Protection::READ;
        if entry & WRITE != 0 {
            protection |= Protection::WRITE;
        }
        if entry & NO_EXECUTE == 0 {
            protection |= Protection::EXECUTE;
        }
        if entry & DEVICE != 0 {
            return Entry::Device { frame, protection };
        }
        let (accessed, dirty) = (entry & ACCESSED != 0, entry & DIRTY != 0);
        Entry::Page { frame, protection, accessed, dirty }
    }
}

/// RISC-V with `LEVELS` levels: 3 is Sv39 and 4 is Sv48. "Privileged Architecture", 12.3 to 12.5.
///
/// Without the extension Svpbmt, entries have no memory type: the platform's physical memory attributes
/// decide how CPUs access device memory. With `SVPBMT`, entries have the requested type, and the kernel must
/// set `menvcfg.PBMTE`; otherwise these entries fault.
#[derive(Debug)]
pub enum RiscV<const LEVELS: u8, const SVPBMT: bool = false> {}

/// RISC-V with 39-bit virtual addresses.
pub type Sv39 = RiscV<3>;
/// RISC-V with 48-bit virtual addresses.
pub type Sv48 = RiscV<4>;

mod riscv {
    pub(super) const VALID: u64 = 1;
    pub(super) const READ: u64 = 1 << 1;
    pub(super) const WRITE: u64 = 1 << 2;
    pub(super) const EXECUTE: u64 = 1 << 3;
    pub(super) const USER: u64 = 1 << 4;
    pub(super) const ACCESSED: u64 = 1 << 6;
    pub(super) const DIRTY: u64 = 1 << 7;
    /// RSW: a bit that the hardware ignores.
    pub(super) const DEVICE: u64 = 1 << 8;
    /// The values NC (not cached) and IO (devices) of the PBMT field of Svpbmt.
    pub(super) const NOT_CACHED: u64 = 1 << 61;
    pub(super) const IO: u64 = 2 << 61;
    /// Bit position of the frame number, which differs from its position in an address.
    pub(super) const FRAME: u32 = 10;
    /// Mask of the frame number.
    pub(super) const FRAMES: u64 = (1 << 44) - 1;
}

// SAFETY: "Privileged Architecture", 12.3 to 12.5. The frame number overlaps no other field.
unsafe impl<const LEVELS_: u8, const SVPBMT: bool> Format for RiscV<LEVELS_, SVPBMT> {
    const LEVELS: u8 = LEVELS_;
    const HAS_KERNEL: bool = true;
    /// "Privileged Architecture", 12.2.1: even an absent entry may be cached until `sfence.vma`.
    const FAULT_FLUSH: FaultFlush = FaultFlush::Always;
    const FRAMES: u64 = riscv::FRAMES + 1;

    #[inline]
    fn table(frame: Frame) -> u64 {
        frame.0 << riscv::FRAME | riscv::VALID
    }

    #[inline]
    fn page(frame: Frame, protection: Protection) -> u64 {
        use riscv::{ACCESSED, DIRTY, EXECUTE, FRAME, READ, USER, VALID, WRITE};
        let mut entry = frame.0 << FRAME | VALID | USER | READ | ACCESSED;
        if protection.contains(Protection::WRITE) {
            entry |= WRITE | DIRTY;
        }
        if protection.contains(Protection::EXECUTE) {
            entry |= EXECUTE;
        }
        entry
    }

    #[inline]
    fn device(frame: Frame, protection: Protection, memory: MemoryType) -> u64 {
        use riscv::{DEVICE, DIRTY, IO, NOT_CACHED};
        let attribute = match memory {
            _ if !SVPBMT => 0,
            MemoryType::WriteBack => 0,
            MemoryType::WriteCombining => NOT_CACHED,
            MemoryType::Device => IO,
        };
        Self::page(frame, protection.difference(Protection::EXECUTE)) | attribute | DEVICE | DIRTY
    }

    /// Returns `entry` unchanged: the level of the table determines the size of the page.
    fn large(entry: u64) -> u64 {
        entry
    }

    #[inline]
    fn clear_accessed(entry: u64) -> u64 {
        entry & !riscv::ACCESSED
    }

    #[inline(always)]
    fn read(entry: u64, _: u8) -> Entry {
        use riscv::{ACCESSED, DEVICE, DIRTY, EXECUTE, FRAME, FRAMES, READ, VALID, WRITE};
        let frame = Frame(entry >> FRAME & FRAMES);
        if entry & VALID == 0 {
            return read_absent(entry, 0);
        }
        if entry & (READ | WRITE | EXECUTE) == 0 {
            return Entry::Table(frame);
        }
        let mut protection = Protection::READ;
        if entry & WRITE != 0 {
            protection |= Protection::WRITE;
        }
        if entry & EXECUTE != 0 {
            protection |= Protection::EXECUTE;
        }
        if entry & DEVICE != 0 {
            return Entry::Device { frame, protection };
        }
        let (accessed, dirty) = (entry & ACCESSED != 0, entry & DIRTY != 0);
        Entry::Page { frame, protection, accessed, dirty }
    }
}

/// AArch64 with a 4 KiB granule and 48-bit addresses: Arm, "Architecture Reference Manual", D8.3.
///
/// Page entries are not global (nG), so a kernel may keep TLB entries of several spaces, each tagged with its
/// own ASID. The AttrIndx of page entries is 0: a kernel must set `MAIR_EL1.Attr0` to Normal, Inner and Outer
/// Write-Back (`0xff`) before it loads a table. For device memory, AttrIndx is 0, 1 or 2. A kernel that maps
/// device memory must also set `MAIR_EL1.Attr1` to Device-nGnRE (`0x04`), which [`MemoryType::Device`] uses,
/// and `Attr2` to Normal, Non-cacheable (`0x44`), which [`MemoryType::WriteCombining`] uses.
#[derive(Debug)]
pub enum AArch64 {}

mod aarch64 {
    pub(super) const VALID: u64 = 1;
    /// In a leaf table, this bit marks a page. In other tables, this bit distinguishes a pointer to a table
    /// (set) from a block, which is a large page (clear).
    pub(super) const PAGE_OR_TABLE: u64 = 1 << 1;
    /// Bit position of AttrIndx.
    pub(super) const ATTRIBUTES: u32 = 2;
    /// AP[1]: user programs may access the page.
    pub(super) const USER: u64 = 1 << 6;
    /// AP[2].
    pub(super) const READ_ONLY: u64 = 1 << 7;
    /// SH: coherent among all CPUs.
    pub(super) const INNER_SHAREABLE: u64 = 0b11 << 8;
    pub(super) const ACCESSED: u64 = 1 << 10;
    /// nG: a cached translation matches only the ASID that was current when the translation was cached.
    pub(super) const NOT_GLOBAL: u64 = 1 << 11;
    /// PXN: the kernel never executes user pages.
    pub(super) const KERNEL_NO_EXECUTE: u64 = 1 << 53;
    /// UXN.
    pub(super) const USER_NO_EXECUTE: u64 = 1 << 54;
    /// A bit that the hardware ignores.
    pub(super) const DEVICE: u64 = 1 << 55;
    pub(super) const ADDRESS: u64 = 0x0000_ffff_ffff_f000;
}

// SAFETY: "Architecture Reference Manual", D8.3. The address bits overlap no other field.
unsafe impl Format for AArch64 {
    const LEVELS: u8 = 4;
    /// "Architecture Reference Manual", D8.16: an entry that raises a translation fault is never cached,
    /// but an entry that raises a permission fault may be cached.
    const FAULT_FLUSH: FaultFlush = FaultFlush::IfPresent;
    const FRAMES: u64 = (aarch64::ADDRESS >> 12) + 1;

    #[inline]
    fn table(frame: Frame) -> u64 {
        frame.0 << 12 | aarch64::VALID | aarch64::PAGE_OR_TABLE
    }

    #[inline]
    fn page(frame: Frame, protection: Protection) -> u64 {
        use aarch64::{
            ACCESSED, INNER_SHAREABLE, KERNEL_NO_EXECUTE, NOT_GLOBAL, PAGE_OR_TABLE, READ_ONLY,
            USER, USER_NO_EXECUTE, VALID,
        };
        let mut entry = frame.0 << 12 | VALID | PAGE_OR_TABLE;
        entry |= USER | INNER_SHAREABLE | ACCESSED | KERNEL_NO_EXECUTE;
        if !is_mutant!("aarch64_global") {
            entry |= NOT_GLOBAL;
        }
        if !protection.contains(Protection::WRITE) {
            entry |= READ_ONLY;
        }
        if !protection.contains(Protection::EXECUTE) {
            entry |= USER_NO_EXECUTE;
        }
        entry
    }

    #[inline]
    fn device(frame: Frame, protection: Protection, memory: MemoryType) -> u64 {
        use aarch64::{ATTRIBUTES, DEVICE};
        let index: u64 = match memory {
            MemoryType::WriteBack => 0,
            MemoryType::Device => 1,
            MemoryType::WriteCombining => 2,
        };
        let page = Self::page(frame, protection.difference(Protection::EXECUTE));
        page | index << ATTRIBUTES | DEVICE
    }

    fn large(entry: u64) -> u64 {
        entry & !aarch64::PAGE_OR_TABLE
    }

    #[inline]
    fn clear_accessed(entry: u64) -> u64 {
        entry & !aarch64::ACCESSED
    }

    #[inline(always)]
    fn read(entry: u64, level: u8) -> Entry {
        use aarch64::{
            ACCESSED, ADDRESS, DEVICE, PAGE_OR_TABLE, READ_ONLY, USER_NO_EXECUTE, VALID,
        };
        let frame = Frame((entry & ADDRESS) >> 12);
        if entry & VALID == 0 {
            return read_absent(entry, 0);
        }
        if level > 0 && entry & PAGE_OR_TABLE != 0 {
            return Entry::Table(frame);
        }
        let mut protection = Protection::READ;
        if entry & READ_ONLY == 0 {
            protection |= Protection::WRITE;
        }
        if entry & USER_NO_EXECUTE == 0 {
            protection |= Protection::EXECUTE;
        }
        if entry & DEVICE != 0 {
            return Entry::Device { frame, protection };
        }
        let dirty = protection.contains(Protection::WRITE);
        Entry::Page { frame, protection, accessed: entry & ACCESSED != 0, dirty }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use proptest::prelude::*;

    fn entries_decode_to_what_they_encode<F: Format>() {
        for number in [0, 1, 0x1234_5678, (1 << 36) - 1] {
            let frame = Frame(number);
            assert_eq!(F::read(F::table(frame), 1), Entry::Table(frame));
            assert_eq!(F::read(F::prot_none(frame), 0), Entry::ProtNone(frame));
            assert_eq!(F::read(F::flush_pending(frame), 0), Entry::FlushPending(frame));
            for dirty in [false, true] {
                let entry = F::swapped(number, dirty);
                assert_eq!(F::read(entry, 0), Entry::Swapped { slot: number, dirty });
            }
            assert_eq!(
                (F::prot_none(frame) | F::flush_pending(frame) | F::swapped(number, true)) & 1,
                0,
                "not present to the hardware"
            );
            for bits in [
                Protection::READ,
                Protection::READ | Protection::WRITE,
                Protection::READ | Protection::EXECUTE,
                Protection::READ | Protection::WRITE | Protection::EXECUTE,
            ] {
                let dirty = bits.contains(Protection::WRITE);
                let page = Entry::Page { frame, protection: bits, accessed: true, dirty };
                assert_eq!(F::read(F::page(frame, bits), 0), page);
                for level in [1, 2] {
                    assert_eq!(F::read(F::large(F::page(frame, bits)), level), page);
                }
                let old = F::clear_accessed(F::page(frame, bits));
                let unused = Entry::Page { frame, protection: bits, accessed: false, dirty };
                assert_eq!(F::read(old, 0), unused);
                assert_eq!(F::read(F::large(old), 1), unused);
            }
        }
        for protection in [Protection::READ, Protection::READ_WRITE] {
            for memory in [MemoryType::WriteBack, MemoryType::WriteCombining, MemoryType::Device] {
                let frame = Frame(F::FRAMES - 1);
                let entry = F::device(frame, protection | Protection::EXECUTE, memory);
                assert_eq!(F::read(entry, 0), Entry::Device { frame, protection });
                assert_eq!(F::read(F::large(entry), 1), Entry::Device { frame, protection });
            }
        }
        let last = (1 << 52) - 1;
        let entry = Entry::Swapped { slot: last, dirty: false };
        assert_eq!(F::read(F::swapped(last, false), 0), entry);
        assert_eq!(F::read(ABSENT, 0), Entry::Absent);
        assert_eq!(F::read(ABSENT, 1), Entry::Absent);
    }

    #[test]
    fn every_format_decodes_its_own_entries() {
        entries_decode_to_what_they_encode::<X86_64>();
        entries_decode_to_what_they_encode::<Sv39>();
        entries_decode_to_what_they_encode::<Sv48>();
        entries_decode_to_what_they_encode::<RiscV<4, true>>();
        entries_decode_to_what_they_encode::<AArch64>();
    }

    proptest! {
        /// The L1 terminal fault: see [`X86_64`]. The frame and slot numbers are in the lower half of all
        /// frame numbers.
        #[test]
        fn entries_that_are_not_present_name_no_memory_on_x86_64(
            number in 0_u64..1 << 39,
            dirty in any::<bool>()
        ) {
            let frame = Frame(number);
            let entries = [
                (X86_64::prot_none(frame), Entry::ProtNone(frame)),
                (X86_64::flush_pending(frame), Entry::FlushPending(frame)),
                (X86_64::swapped(number, dirty), Entry::Swapped { slot: number, dirty }),
            ];
            for (entry, meaning) in entries {
                prop_assert_eq!(X86_64::read(entry, 0), meaning);
                prop_assert_eq!(entry & x86_64::PRESENT, 0);
                prop_assert_eq!(entry & 1 << 51, 1 << 51, "{:?} names memory", meaning);
                // On a CPU with fewer address bits, the highest bit that the CPU compares is set, too.
                for bits in 36..52 {
                    let is_low = number < 1 << (bits - 1 - 12);
                    prop_assert!(!is_low || entry & 1 << (bits - 1) != 0, "{bits} bits");
                }
            }
        }
    }

    /// Linux encodes user pages the same way: AArch64's `PAGE_READONLY` ends in `fc3`.
    #[test]
    fn entries_match_the_manuals() {
        let (read, write) = (Protection::READ, Protection::READ | Protection::WRITE);
        assert_eq!(X86_64::page(Frame(0x1_2345), write), 0x8000_0000_1234_5067);
        assert_eq!(X86_64::page(Frame(0x1_2345), read | Protection::EXECUTE), 0x1234_5025);
        assert_eq!(Sv39::page(Frame(0x8_0000), write), 0x2000_00d7);
        assert_eq!(Sv39::table(Frame(0x8_0000)), 0x2000_0001);
        assert_eq!(AArch64::page(Frame(0x4_0000), read), 0x0060_0000_4000_0fc3);
        assert_eq!(AArch64::large(AArch64::page(Frame(0x4_0000), read)), 0x0060_0000_4000_0fc1);
        assert_eq!(X86_64::large(X86_64::page(Frame(0x1_2200), write)), 0x8000_0000_1220_00e7);
        let registers = Frame(0xf_ed00);
        assert_eq!(X86_64::device(registers, write, MemoryType::Device), 0x8000_0000_fed0_027f);
        let combining = X86_64::device(registers, write, MemoryType::WriteCombining);
        assert_eq!(combining, 0x8000_0000_fed0_026f);
        assert_eq!(Sv39::device(registers, write, MemoryType::Device), 0x3fb4_01d7);
        let io = RiscV::<3, true>::device(registers, write, MemoryType::Device);
        assert_eq!(io, 0x4000_0000_3fb4_01d7);
        let device = AArch64::device(registers, write, MemoryType::Device);
        assert_eq!(device, 0x00e0_0000_fed0_0f47);
    }
}
