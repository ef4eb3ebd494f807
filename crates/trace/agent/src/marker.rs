//! Marks that a plugin of QEMU finds in the instructions: no-operations with a number in them, which
//! a real processor passes over.

use std::arch::asm;

/// What the number of a mark begins with: "kn".
const MAGIC: u32 = 0x6b6e_0000;

/// Calls that can have a window of their own.
const WINDOWS: usize = 4;

macro_rules! mark {
    ($code:expr) => {
        // SAFETY: it does nothing. `nop dword ptr [rax + rax + number]`, 8 bytes.
        unsafe {
            asm!(
                ".byte 0x0f, 0x1f, 0x84, 0x00",
                ".long {number}",
                number = const MAGIC | $code,
                options(nomem, nostack, preserves_flags),
            )
        }
    };
}

/// A test begins.
pub(crate) fn test_begins() {
    mark!(0x01);
}

/// A test ends.
pub(crate) fn test_ends() {
    mark!(0x02);
}

/// While it lives, what this thread does belongs to a call.
pub(crate) struct Window(usize);

impl Window {
    /// Opens that of call `nr`.
    #[inline(always)]
    pub(crate) fn open(nr: usize) -> Self {
        match nr {
            0 => mark!(0x10),
            1 => mark!(0x11),
            2 => mark!(0x12),
            3 => mark!(0x13),
            other => unreachable!("{other} is not among {WINDOWS} calls"),
        }
        Self(nr)
    }
}

impl Drop for Window {
    #[inline(always)]
    fn drop(&mut self) {
        match self.0 {
            0 => mark!(0x20),
            1 => mark!(0x21),
            2 => mark!(0x22),
            _ => mark!(0x23),
        }
    }
}
