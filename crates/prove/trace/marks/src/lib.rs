//! The protocol by which a guest reports events to knee's QEMU plugin.
//!
//! A guest signals the plugin with instructions that do nothing. `nopl disp32(base,index)` is eight
//! bytes, `0f 1f 84 sib disp32`, and the plugin sees the bytes when QEMU translates them. So the
//! same program also runs on real hardware, where the instructions have no effect, and the kernel
//! under test needs no change. There are two kinds of such instructions:
//!
//! * **[`Mark`]** reports an event, such as "a test begins" or "the window of side 1 opens". The
//!   SIB byte is 0, as in the padding that assemblers emit. The upper half of the displacement is
//!   [`MAGIC`], which never occurs in padding.
//! * **[`Entry`]** reports an address, such as "an interrupt enters the kernel at this address".
//!   The SIB byte encodes the kind of the entry; no assembler emits these SIB bytes for padding. The
//!   displacement, sign-extended, is the address. This loses no bits, because the whole text of an
//!   x86-64 kernel lies in the upper 2 GiB. The guest finds the addresses in its `/proc/kallsyms`
//!   with [`entries`]. [`emit_entries`] writes the [`Entry::code`] of each entry and a return
//!   instruction into memory, and calls this code. So no symbol table is needed outside the guest,
//!   even with a stripped kernel image or KASLR.
//!
//! A guest first reports its entries, then executes [`Mark::Arm`], then makes a system call. The system call
//! ends the current block of instructions; the plugin's callbacks take effect with the next block. For each
//! test, the guest executes `Begin`, the marks of the windows, and `End`. A guest must report all entries
//! before `Arm`: after `Arm`, the plugin compares a block's address with the entries only once, when QEMU
//! translates the block. If the plugin tracks which CPU holds which cache line, `Flush` precedes the first
//! test of each experiment.
//!
//! Callbacks cost time, and only code that runs in windows needs them. QEMU translates code separately for
//! each value of certain CPU flags, so a flag that is set only in windows separates the code that runs in
//! windows from other code. A guest may execute `Apart` before `Arm` if it sets one of these flags right
//! after `Open`, clears the flag right before `Close`, and keeps it clear at all other times. If a guest
//! opens a window outside of a test, the CPU flag must stay clear in this window, too. After `Apart`, kernel
//! code gets no callbacks if it is translated while no window is open. If a guest executes `Apart`, its
//! virtual CPUs must share one host thread.
//!
//! ```
//! use knee_marks::{Mark, entries};
//!
//! assert_eq!(Mark::Open(1).code(), [0x0f, 0x1f, 0x84, 0x00, 0x11, 0x00, 0x6e, 0x6b]);
//! assert_eq!(Mark::decode(&Mark::Open(1).code()), Some(Mark::Open(1)));
//!
//! let kallsyms = "ffffffff81c00b90 T asm_sysvec_reboot\nffffffff81c00c00 T memcpy\n";
//! let mut found = Vec::new();
//! entries(kallsyms, |entry| found.push(entry.address));
//! assert_eq!(found, [0xffff_ffff_81c0_0b90]);
//! ```

#![no_std]

#[cfg(unix)]
mod emit;
mod entry;
mod kallsyms;
mod mark;

#[cfg(unix)]
pub use emit::emit_entries;
pub use entry::{Entry, EntryKind, entries};
pub use kallsyms::{KernelSymbol, kernel_symbols};
pub use mark::{MAGIC, Mark, SIDES};

/// Length of each of these instructions, in bytes.
pub const CODE_BYTES: usize = 8;

const NOPL: [u8; 3] = [0x0f, 0x1f, 0x84];

fn encode(sib: u8, displacement: u32) -> [u8; CODE_BYTES] {
    let [a, b, c, d] = displacement.to_le_bytes();
    [NOPL[0], NOPL[1], NOPL[2], sib, a, b, c, d]
}

fn decode(code: &[u8]) -> Option<(u8, u32)> {
    let code: [u8; CODE_BYTES] = code.try_into().ok()?;
    let [n, o, p, sib, a, b, c, d] = code;
    ([n, o, p] == NOPL).then_some((sib, u32::from_le_bytes([a, b, c, d])))
}
