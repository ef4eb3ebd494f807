//! What the callback of a logged access must know about the instruction that makes the access.

use crate::block::{ADDRESS_BITS, pack_address, unpack_address};

/// How an instruction changes memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Update {
    /// By plain loads and stores.
    Plain,
    /// Atomically, whatever the memory contains.
    Atomic,
    /// Atomically, if the memory contains the expected value.
    CompareExchange,
}

/// An instruction, its position in its block, and how it changes memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) pc: u64,
    /// The number of instructions from this one to the end of the block, this one included. QEMU's blocks
    /// have at most 512 instructions.
    pub(crate) rest: usize,
    pub(crate) update: Update,
}

impl Place {
    const REST_BITS: u32 = 10;

    /// Packs the place into one number, because QEMU stores only one number per callback. Like
    /// [`BlockStart::pack`](crate::block::BlockStart::pack), this keeps the significant bits of the address.
    pub(crate) fn pack(&self) -> u64 {
        let update = match self.update {
            Update::Plain => 0,
            Update::Atomic => 1,
            Update::CompareExchange => 2,
        };
        let rest = (self.rest as u64).min((1 << Self::REST_BITS) - 1);
        pack_address(self.pc) | rest << ADDRESS_BITS | update << (ADDRESS_BITS + Self::REST_BITS)
    }

    pub(crate) fn unpack(packed: u64) -> Place {
        let above = packed >> ADDRESS_BITS;
        Place {
            pc: unpack_address(packed),
            rest: (above & ((1 << Self::REST_BITS) - 1)) as usize,
            update: match above >> Self::REST_BITS {
                0 => Update::Plain,
                1 => Update::Atomic,
                _ => Update::CompareExchange,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_fits_into_one_number() {
        for update in [Update::Plain, Update::Atomic, Update::CompareExchange] {
            for pc in [0x0000_7fff_ffff_f001, 0xffff_ffff_81c0_0b90, 0xffff_8000_0000_0000] {
                for rest in [1, 17, 512] {
                    let place = Place { pc, rest, update };
                    assert_eq!(Place::unpack(place.pack()), place);
                }
            }
        }
    }
}
