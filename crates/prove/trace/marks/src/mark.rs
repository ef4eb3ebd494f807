//! Marks, which a guest executes where a test or a window begins or ends.

use core::arch::asm;

use crate::{CODE_BYTES, decode, encode};

/// Upper half of a mark's displacement: the number 0x6b6e, "kn".
pub const MAGIC: u32 = 0x6b6e_0000;
/// The maximum number of sides of a test. The plugin compares the memory accesses of the sides.
pub const SIDES: usize = 4;

const SIB_MARK: u8 = 0;
const BEGIN: u32 = 0x01;
const END: u32 = 0x02;
const ARM: u32 = 0x03;
const FLUSH: u32 = 0x04;
const APART: u32 = 0x05;
const OPEN: u32 = 0x10;
const CLOSE: u32 = 0x20;

/// An event that a guest marks in its code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// A test begins. The first test has index 0, and each later test has the next index.
    Begin,
    /// The test ends. The plugin compares the sides and writes the result.
    End,
    /// From this mark on, QEMU translates code with callbacks. The guest boots at full speed before this
    /// mark.
    Arm,
    /// The caches in the plugin's model become empty: no virtual CPU holds any cache line.
    Flush,
    /// From this mark on, the plugin watches kernel code only if QEMU translates it while a window is
    /// open; see the crate's documentation. This mark must precede `Arm`.
    Apart,
    /// Opens the window of this side, a number below [`SIDES`], on the executing virtual CPU.
    Open(u8),
    /// Closes the window of this side.
    Close(u8),
}

impl Mark {
    /// The instruction that encodes the mark.
    pub fn code(self) -> [u8; CODE_BYTES] {
        let code = match self {
            Mark::Begin => BEGIN,
            Mark::End => END,
            Mark::Arm => ARM,
            Mark::Flush => FLUSH,
            Mark::Apart => APART,
            Mark::Open(side) => OPEN + u32::from(side),
            Mark::Close(side) => CLOSE + u32::from(side),
        };
        encode(SIB_MARK, MAGIC | code)
    }

    /// The mark that an instruction encodes, if any.
    pub fn decode(code: &[u8]) -> Option<Mark> {
        let (SIB_MARK, displacement) = decode(code)? else { return None };
        let side = |base: u32, code: u32| {
            let side = code.checked_sub(base)?;
            u8::try_from(side).ok().filter(|&side| usize::from(side) < SIDES)
        };
        match displacement.checked_sub(MAGIC)? {
            BEGIN => Some(Mark::Begin),
            END => Some(Mark::End),
            ARM => Some(Mark::Arm),
            FLUSH => Some(Mark::Flush),
            APART => Some(Mark::Apart),
            code => side(OPEN, code).map(Mark::Open).or_else(|| side(CLOSE, code).map(Mark::Close)),
        }
    }

    /// Executes the instruction that encodes the mark. The compiler moves no memory access across this
    /// instruction.
    ///
    /// # Panics
    /// Panics if the side is not below [`SIDES`].
    #[inline(always)]
    pub fn emit(self) {
        match self {
            Mark::Begin => emit_code::<BEGIN>(),
            Mark::End => emit_code::<END>(),
            Mark::Arm => emit_code::<ARM>(),
            Mark::Flush => emit_code::<FLUSH>(),
            Mark::Apart => emit_code::<APART>(),
            Mark::Open(0) => emit_code::<OPEN>(),
            Mark::Open(1) => emit_code::<{ OPEN + 1 }>(),
            Mark::Open(2) => emit_code::<{ OPEN + 2 }>(),
            Mark::Open(3) => emit_code::<{ OPEN + 3 }>(),
            Mark::Close(0) => emit_code::<CLOSE>(),
            Mark::Close(1) => emit_code::<{ CLOSE + 1 }>(),
            Mark::Close(2) => emit_code::<{ CLOSE + 2 }>(),
            Mark::Close(3) => emit_code::<{ CLOSE + 3 }>(),
            Mark::Open(side) | Mark::Close(side) => panic!("a test has no side {side}"),
        }
    }
}

#[inline(always)]
fn emit_code<const CODE: u32>() {
    // SAFETY: the instruction does nothing, whatever its operand: it touches no register, flag or memory.
    // Because the option `nomem` is missing here, the compiler must assume that the instruction accesses
    // memory, so the compiler moves no access across the instruction.
    unsafe {
        asm!(
            ".byte 0x0f, 0x1f, 0x84, 0x00",
            ".long {}",
            const MAGIC | CODE,
            options(nostack, preserves_flags)
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mark_is_decoded_and_padding_is_not_a_mark() {
        let sides = (0..SIDES as u8).flat_map(|side| [Mark::Open(side), Mark::Close(side)]);
        let others = [Mark::Begin, Mark::End, Mark::Arm, Mark::Flush, Mark::Apart];
        for mark in others.into_iter().chain(sides) {
            assert_eq!(Mark::decode(&mark.code()), Some(mark));
        }
        assert_eq!(Mark::decode(&[0x0f, 0x1f, 0x84, 0x00, 0, 0, 0, 0]), None);
        assert_eq!(Mark::decode(&encode(SIB_MARK, MAGIC | 0x14)), None);
        assert_eq!(Mark::decode(&encode(SIB_MARK, MAGIC | 0x110)), None);
        assert_eq!(Mark::decode(&[0x90]), None);
    }
}
