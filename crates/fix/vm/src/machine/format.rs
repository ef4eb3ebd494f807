//! Entries of page tables, as the hardware reads them.

use knee_sync::shim::AtomicU64;

use crate::page::{BITS, ENTRIES, Frame, Pages, Protection};

/// The entries of a table.
pub(crate) type Table = [AtomicU64; ENTRIES];

/// What an entry says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Entry {
    /// Nothing: who goes there faults.
    Absent,
    /// The same to the hardware, and a page to us, with which nothing may be done at the moment.
    ProtNone(Frame),
    /// The same, for as long as CPUs may still know what it was: somebody waits for them, and will say
    /// what it is then.
    FlushPending(Frame),
    /// The next table.
    Table(Frame),
    /// A page.
    Page {
        /// Where it is.
        frame: Frame,
        /// What may be done with it.
        protection: Protection,
        /// Somebody has gone there since the entry was made, as far as the hardware tells.
        accessed: bool,
        /// Somebody has written there.
        dirty: bool,
    },
}

/// An entry that is 0 is absent in all formats.
pub const ABSENT: u64 = 0;

/// Which TLB entries may outlive a page fault that they raised, and so have to be flushed by the handler: else the
/// CPU faults again forever.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultFlush {
    /// None: the fault itself drops the entry, and absent entries are never cached.
    Never,
    /// Those of pages that were present and allowed less.
    IfPresent,
    /// Those of pages that were absent, too.
    Always,
}

/// A format of page tables with entries of 64 bits, 512 in each table.
///
/// A CPU may cache entries in its TLB. This crate has [`Machine::shoot_down`](crate::Machine::shoot_down) flush them before
/// anything that was taken away is used again, and [`Space::fault`](crate::Space::fault) flush what would raise the same
/// fault again, as [`FAULT_FLUSH`](Format::FAULT_FLUSH) says. An entry that gives a CPU more rights, or
/// a page that was absent, is stored without a flush: a CPU that has cached the old one faults once.
///
/// # Safety
/// This crate frees, and reads and writes, the frames that [`read`](Format::read) returns. So, for each frame of the
/// machine and each level:
/// * `read` returns of an entry what it was made of by [`table`](Format::table), [`page`](Format::page),
///   [`prot_none`](Format::prot_none) or [`flush_pending`](Format::flush_pending): the same variant and frame, and no more protection.
/// * It returns the same when the hardware has set accessed and dirty in it.
/// * It returns [`Entry::Absent`] of [`ABSENT`], at all levels.
/// * The hardware takes entries of `table` and `page` for what they say, those of `page` with no more than the given
///   protection, and those of `prot_none` and `flush_pending` for absent.
/// * [`pages`](Format::pages) has only pages that a root of [`LEVELS`](Format::LEVELS) levels has entries for, and none
///   whose entries of the root are the kernel's.
pub unsafe trait Format: Sync + 'static {
    /// Tables on the way from the root to a page.
    const LEVELS: u8;

    /// Whether one register has both halves of addresses: the upper half of the root's entries is the kernel's
    /// then, and spaces have the lower one.
    const HAS_KERNEL: bool = false;

    /// What the handler of page faults flushes on the CPU that faulted. The default is right for any hardware.
    const FAULT_FLUSH: FaultFlush = FaultFlush::Always;

    /// Pages that spaces have. It is as it is for all formats.
    #[inline]
    fn pages() -> Pages {
        let bits = BITS * u32::from(Self::LEVELS) - u32::from(Self::HAS_KERNEL);
        Pages { start: 0, end: 1 << bits }
    }

    /// An entry for a table.
    fn table(frame: Frame) -> u64;

    /// An entry for a page that user programs may at least read. It is not global: the hardware uses it for the
    /// space in whose tables it is, so that a kernel may keep TLB entries of several spaces by PCID or ASID. Accessed and dirty are set if the protection would
    /// let the hardware set them, so that it need not do it at the first access.
    fn page(frame: Frame, protection: Protection) -> u64;

    /// An entry for a page with which nothing may be done: the hardware takes it for absent, as the lowest
    /// bit is clear, and ignores the others.
    fn prot_none(frame: Frame) -> u64 {
        frame.0 << 12 | PROT_NONE
    }

    /// An entry for a page that is on its way out.
    fn flush_pending(frame: Frame) -> u64 {
        Self::prot_none(frame) | FLUSH_PENDING
    }

    /// An entry for a page with this protection: [`page`](Format::page) or [`prot_none`](Format::prot_none).
    fn page_or_prot_none(frame: Frame, protection: Protection) -> u64 {
        match protection.contains(Protection::READ) {
            true => Self::page(frame, protection),
            false => Self::prot_none(frame),
        }
    }

    /// What an entry says that one of the above has made, and to which hardware may have added
    /// accessed and dirty. `level` is 0 for the tables that have pages.
    fn read(entry: u64, level: u8) -> Entry;
}

/// Set in the entries of `prot_none` and `flush_pending`, and not in 0.
const PROT_NONE: u64 = 1 << 1;

/// Set in the entries of `flush_pending` alone.
const FLUSH_PENDING: u64 = 1 << 2;

/// What an entry says that the hardware takes for absent.
fn read_absent(entry: u64) -> Entry {
    let frame = Frame(entry >> 12);
    match entry {
        ABSENT => Entry::Absent,
        _ if entry & FLUSH_PENDING == 0 => Entry::ProtNone(frame),
        _ => Entry::FlushPending(frame),
    }
}

/// Bits of a frame's address where entries have them in place: 12 to 47, to 51 for some.
const ADDRESS: u64 = 0x000f_ffff_ffff_f000;

/// x86-64 with four levels: Intel, "Software Developer's Manual", volume 3, 4.5.
#[derive(Debug)]
pub enum X86_64 {}

mod x86_64 {
    pub(super) const PRESENT: u64 = 1;
    pub(super) const WRITE: u64 = 1 << 1;
    pub(super) const USER: u64 = 1 << 2;
    pub(super) const ACCESSED: u64 = 1 << 5;
    pub(super) const DIRTY: u64 = 1 << 6;
    pub(super) const NO_EXECUTE: u64 = 1 << 63;
}

// SAFETY: "Software Developer's Manual", volume 3, table 4-20. Bits of the address are apart from all others.
unsafe impl Format for X86_64 {
    const LEVELS: u8 = 4;
    const HAS_KERNEL: bool = true;
    /// "Software Developer's Manual", volume 3, 4.10.4.1 and 4.10.2.3.
    const FAULT_FLUSH: FaultFlush = FaultFlush::Never;

    fn table(frame: Frame) -> u64 {
        use x86_64::{PRESENT, USER, WRITE};
        frame.0 << 12 | PRESENT | WRITE | USER
    }

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

    fn read(entry: u64, level: u8) -> Entry {
        use x86_64::{ACCESSED, DIRTY, NO_EXECUTE, PRESENT, WRITE};
        let frame = Frame((entry & ADDRESS) >> 12);
        if entry & PRESENT == 0 {
            return read_absent(entry);
        }
        if level > 0 {
            return Entry::Table(frame);
        }
        let mut protection = Protection::READ;
        if entry & WRITE != 0 {
            protection = protection | Protection::WRITE;
        }
        if entry & NO_EXECUTE == 0 {
            protection = protection | Protection::EXECUTE;
        }
        let (accessed, dirty) = (entry & ACCESSED != 0, entry & DIRTY != 0);
        Entry::Page { frame, protection, accessed, dirty }
    }
}

/// RISC-V with `LEVELS` levels: 3 is Sv39 and 4 is Sv48. "Privileged Architecture", 10.3.
#[derive(Debug)]
pub enum RiscV<const LEVELS: u8> {}

/// RISC-V, 39 bits of virtual address.
pub type Sv39 = RiscV<3>;
/// RISC-V, 48 bits of virtual address.
pub type Sv48 = RiscV<4>;

mod riscv {
    pub(super) const VALID: u64 = 1;
    pub(super) const READ: u64 = 1 << 1;
    pub(super) const WRITE: u64 = 1 << 2;
    pub(super) const EXECUTE: u64 = 1 << 3;
    pub(super) const USER: u64 = 1 << 4;
    pub(super) const ACCESSED: u64 = 1 << 6;
    pub(super) const DIRTY: u64 = 1 << 7;
    /// Where the frame's number begins: not where it is in an address.
    pub(super) const FRAME: u32 = 10;
    /// Its bits.
    pub(super) const FRAMES: u64 = (1 << 44) - 1;
}

// SAFETY: "Privileged Architecture", 10.3. The frame's number is apart from all other bits.
unsafe impl<const LEVELS_: u8> Format for RiscV<LEVELS_> {
    const LEVELS: u8 = LEVELS_;
    const HAS_KERNEL: bool = true;
    /// "Privileged Architecture", 12.2.1: even an absent entry may be cached until `sfence.vma`.
    const FAULT_FLUSH: FaultFlush = FaultFlush::Always;

    fn table(frame: Frame) -> u64 {
        frame.0 << riscv::FRAME | riscv::VALID
    }

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

    fn read(entry: u64, _: u8) -> Entry {
        use riscv::{ACCESSED, DIRTY, EXECUTE, FRAME, FRAMES, READ, VALID, WRITE};
        let frame = Frame(entry >> FRAME & FRAMES);
        if entry & VALID == 0 {
            return read_absent(entry);
        }
        if entry & (READ | WRITE | EXECUTE) == 0 {
            return Entry::Table(frame);
        }
        let mut protection = Protection::READ;
        if entry & WRITE != 0 {
            protection = protection | Protection::WRITE;
        }
        if entry & EXECUTE != 0 {
            protection = protection | Protection::EXECUTE;
        }
        let (accessed, dirty) = (entry & ACCESSED != 0, entry & DIRTY != 0);
        Entry::Page { frame, protection, accessed, dirty }
    }
}

/// AArch64, granule of 4 KiB, 48 bits: Arm, "Architecture Reference Manual", D8.3.
///
/// Entries for pages are not global (nG), so a kernel may keep the TLB entries of several spaces, each under its own
/// ASID. Their AttrIndx is 0: a kernel must set `MAIR_EL1.Attr0` to Normal, Inner and Outer Write-Back
/// (`0xff`) before it loads a table.
#[derive(Debug)]
pub enum AArch64 {}

mod aarch64 {
    /// Valid, and at level 3 a page, elsewhere a table.
    pub(super) const VALID: u64 = 0b11;
    /// AP[1]: user programs may go there.
    pub(super) const USER: u64 = 1 << 6;
    /// AP[2].
    pub(super) const READ_ONLY: u64 = 1 << 7;
    /// Shared by all CPUs.
    pub(super) const INNER_SHAREABLE: u64 = 0b11 << 8;
    pub(super) const ACCESSED: u64 = 1 << 10;
    /// nG: the translation is for the current ASID only. Without it every space would use it.
    pub(super) const NOT_GLOBAL: u64 = 1 << 11;
    /// PXN: the kernel never executes what user programs may write.
    pub(super) const KERNEL_NO_EXECUTE: u64 = 1 << 53;
    /// UXN.
    pub(super) const USER_NO_EXECUTE: u64 = 1 << 54;
    pub(super) const ADDRESS: u64 = 0x0000_ffff_ffff_f000;
}

// SAFETY: "Architecture Reference Manual", D8.3. Bits of the address are apart from all others.
unsafe impl Format for AArch64 {
    const LEVELS: u8 = 4;
    /// "Architecture Reference Manual", D8.16: an entry that raises a translation fault is never cached; one
    /// that raises a permission fault may be.
    const FAULT_FLUSH: FaultFlush = FaultFlush::IfPresent;

    fn table(frame: Frame) -> u64 {
        frame.0 << 12 | aarch64::VALID
    }

    fn page(frame: Frame, protection: Protection) -> u64 {
        use aarch64::{
            ACCESSED, INNER_SHAREABLE, KERNEL_NO_EXECUTE, NOT_GLOBAL, READ_ONLY, USER,
            USER_NO_EXECUTE, VALID,
        };
        let mut entry = frame.0 << 12
            | VALID
            | USER
            | INNER_SHAREABLE
            | ACCESSED
            | NOT_GLOBAL
            | KERNEL_NO_EXECUTE;
        if !protection.contains(Protection::WRITE) {
            entry |= READ_ONLY;
        }
        if !protection.contains(Protection::EXECUTE) {
            entry |= USER_NO_EXECUTE;
        }
        entry
    }

    fn read(entry: u64, level: u8) -> Entry {
        use aarch64::{ACCESSED, ADDRESS, READ_ONLY, USER_NO_EXECUTE, VALID};
        let frame = Frame((entry & ADDRESS) >> 12);
        if entry & VALID != VALID {
            return read_absent(entry);
        }
        if level > 0 {
            return Entry::Table(frame);
        }
        let mut protection = Protection::READ;
        if entry & READ_ONLY == 0 {
            protection = protection | Protection::WRITE;
        }
        if entry & USER_NO_EXECUTE == 0 {
            protection = protection | Protection::EXECUTE;
        }
        let dirty = protection.contains(Protection::WRITE);
        Entry::Page { frame, protection, accessed: entry & ACCESSED != 0, dirty }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries_say_what_they_were_made_of<F: Format>() {
        for number in [0, 1, 0x1234_5678, (1 << 36) - 1] {
            let frame = Frame(number);
            assert_eq!(F::read(F::table(frame), 1), Entry::Table(frame));
            assert_eq!(F::read(F::prot_none(frame), 0), Entry::ProtNone(frame));
            assert_eq!(F::read(F::flush_pending(frame), 0), Entry::FlushPending(frame));
            assert_eq!(
                (F::prot_none(frame) | F::flush_pending(frame)) & 1,
                0,
                "absent to the hardware"
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
            }
        }
        assert_eq!(F::read(ABSENT, 0), Entry::Absent);
        assert_eq!(F::read(ABSENT, 1), Entry::Absent);
    }

    #[test]
    fn every_format_reads_what_it_has_written() {
        entries_say_what_they_were_made_of::<X86_64>();
        entries_say_what_they_were_made_of::<Sv39>();
        entries_say_what_they_were_made_of::<Sv48>();
        entries_say_what_they_were_made_of::<AArch64>();
    }

    /// Entries as Linux makes them for user pages: `PAGE_READONLY` of AArch64 ends in `fc3`.
    #[test]
    fn entries_are_those_of_the_manuals() {
        let (read, write) = (Protection::READ, Protection::READ | Protection::WRITE);
        assert_eq!(X86_64::page(Frame(0x1_2345), write), 0x8000_0000_1234_5067);
        assert_eq!(X86_64::page(Frame(0x1_2345), read | Protection::EXECUTE), 0x1234_5025);
        assert_eq!(Sv39::page(Frame(0x8_0000), write), 0x2000_00d7);
        assert_eq!(Sv39::table(Frame(0x8_0000)), 0x2000_0001);
        assert_eq!(AArch64::page(Frame(0x4_0000), read), 0x0060_0000_4000_0fc3);
    }
}
