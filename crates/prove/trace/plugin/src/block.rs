//! What the callback of a block of instructions must know about the block.

use knee_marks::EntryKind;

/// How a block of instructions ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ends {
    /// A jump, or any other instruction after which QEMU ends the block.
    Otherwise,
    Call,
    Return,
    /// A return from an exception or from the kernel: `iretq`, `sysretq`.
    Leaves,
}

/// The start of a block of instructions, and how the block ends.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct BlockStart {
    pub(crate) address: u64,
    /// The number of instructions in the block.
    pub(crate) length: usize,
    pub(crate) enters: Option<EntryKind>,
    pub(crate) ends: Ends,
}

/// The number of significant bits of a virtual address. The guest's CPUs do not support five-level page
/// tables.
pub(crate) const ADDRESS_BITS: u32 = 48;

/// Returns the significant bits of a virtual address.
pub(crate) fn pack_address(address: u64) -> u64 {
    let unused = u64::BITS - ADDRESS_BITS;
    address << unused >> unused
}

/// Returns the virtual address whose significant bits are the lowest bits of a number.
pub(crate) fn unpack_address(packed: u64) -> u64 {
    let unused = u64::BITS - ADDRESS_BITS;
    ((packed << unused) as i64 >> unused) as u64
}

impl BlockStart {
    const LENGTH_BITS: u32 = 10;
    const ENTERS_BITS: u32 = 2;

    /// Packs the block into one number, because QEMU stores only one number per callback. Only the
    /// [significant bits](ADDRESS_BITS) of the address are stored.
    pub(crate) fn pack(&self) -> u64 {
        let enters = match self.enters {
            // If the plugin logs accesses, a block that enters deferred work has a callback of its own.
            None | Some(EntryKind::Deferred) => 0,
            Some(EntryKind::Interrupt) => 1,
            Some(EntryKind::Fault) => 2,
            Some(EntryKind::Switch) => 3,
        };
        let ends = match self.ends {
            Ends::Otherwise => 0,
            Ends::Call => 1,
            Ends::Return => 2,
            Ends::Leaves => 3,
        };
        let length = (self.length as u64).min((1 << Self::LENGTH_BITS) - 1);
        pack_address(self.address)
            | length << ADDRESS_BITS
            | enters << (ADDRESS_BITS + Self::LENGTH_BITS)
            | ends << (ADDRESS_BITS + Self::LENGTH_BITS + Self::ENTERS_BITS)
    }

    pub(crate) fn unpack(packed: u64) -> BlockStart {
        let above = packed >> ADDRESS_BITS;
        let kinds = above >> Self::LENGTH_BITS;
        let enters = match kinds & ((1 << Self::ENTERS_BITS) - 1) {
            1 => Some(EntryKind::Interrupt),
            2 => Some(EntryKind::Fault),
            3 => Some(EntryKind::Switch),
            _ => None,
        };
        let ends = match kinds >> Self::ENTERS_BITS {
            1 => Ends::Call,
            2 => Ends::Return,
            3 => Ends::Leaves,
            _ => Ends::Otherwise,
        };
        BlockStart {
            address: unpack_address(packed),
            length: (above & ((1 << Self::LENGTH_BITS) - 1)) as usize,
            enters,
            ends,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_properties_of_a_block_fit_into_one_number() {
        for enters in [None, Some(EntryKind::Interrupt), Some(EntryKind::Switch)] {
            for address in [0x0000_7fff_ffff_f001, 0xffff_ffff_81c0_0b90, 0xffff_8000_0000_0000] {
                for ends in [Ends::Otherwise, Ends::Call, Ends::Return, Ends::Leaves] {
                    let start = BlockStart { address, length: 512, enters, ends };
                    assert_eq!(BlockStart::unpack(start.pack()), start);
                }
            }
        }
    }
}
