//! Which callbacks a block of instructions gets when QEMU translates it.
//!
//! Kernel code, told by addresses in the upper half, gets one per block and one per access to
//! memory. User code gets them with `user=on` only, so that user threads that wait for each other
//! by spinning cost nothing. Before arming, nothing gets any but the mark that arms: callbacks on
//! everything make a guest boot nine times slower.

use std::ffi::{c_uint, c_void};

use knee_marks::{CODE_BYTES, Entry, EntryKind, Mark};

use crate::qemu::{AccessInfo, Block, Instruction, arm};
use crate::session;
use crate::vcpu::{BlockStart, vcpu};

/// Return from an interrupt or exception in 64-bit code.
const IRETQ: [u8; 2] = [0x48, 0xcf];

fn is_kernel(address: u64) -> bool {
    address >> 63 == 1
}

/// Looks for entries and for the mark that arms, in user code.
pub(crate) fn before_arming(block: &Block) {
    for insn in block.instructions() {
        if is_kernel(insn.address()) {
            return;
        }
        let Some(code) = insn.code::<CODE_BYTES>() else { continue };
        if let Some(entry) = Entry::decode(&code) {
            session::learn(entry);
        } else if Mark::decode(&code) == Some(Mark::Arm) {
            insn.on_execute(on_arm, 0);
        }
    }
}

/// Gives a block the callbacks that it needs while tests run.
pub(crate) fn armed(block: &Block) {
    let length = block.instructions().len();
    let Some(first) = block.instructions().next() else { return };
    let kernel = is_kernel(first.address());
    let user = session::counts_user();
    if kernel || user {
        let enters = if kernel { session::entry_at(first.address()) } else { None };
        let start = BlockStart { address: first.address(), length, enters };
        block.on_execute(on_block, start.pack());
    }
    for insn in block.instructions() {
        if kernel || user {
            insn.on_access(on_access, insn.address());
        }
        if kernel {
            if insn.code() == Some(IRETQ) {
                insn.on_execute(on_return, insn.address() + IRETQ.len() as u64);
            }
        } else {
            mark(insn);
        }
    }
}

fn mark(insn: Instruction<'_>) {
    let Some(mark) = insn.code::<CODE_BYTES>().and_then(|code| Mark::decode(&code)) else { return };
    match mark {
        Mark::Begin => insn.on_execute(on_begin, 0),
        Mark::End => insn.on_execute(on_end, 0),
        Mark::Open(side) => insn.on_execute(on_open, side.into()),
        Mark::Close(side) => insn.on_execute(on_close, side.into()),
        Mark::Arm => {}
    }
}

extern "C" fn on_arm(_: c_uint, _: *mut c_void) {
    if session::arm() {
        arm();
    }
}

extern "C" fn on_begin(_: c_uint, _: *mut c_void) {
    session::begin();
}

extern "C" fn on_end(_: c_uint, _: *mut c_void) {
    session::end();
}

extern "C" fn on_open(cpu: c_uint, side: *mut c_void) {
    vcpu(cpu, |vcpu| session::open(side.addr(), cpu, vcpu));
}

extern "C" fn on_close(cpu: c_uint, side: *mut c_void) {
    vcpu(cpu, |vcpu| session::close(side.addr(), vcpu));
}

extern "C" fn on_block(cpu: c_uint, start: *mut c_void) {
    vcpu(cpu, |vcpu| vcpu.block(|| BlockStart::unpack(start.addr() as u64)));
}

extern "C" fn on_return(cpu: c_uint, next: *mut c_void) {
    vcpu(cpu, |vcpu| vcpu.returns(next.addr() as u64));
}

extern "C" fn on_access(cpu: c_uint, info: u32, address: u64, pc: *mut c_void) {
    vcpu(cpu, |vcpu| vcpu.access(AccessInfo(info), address, pc.addr() as u64));
}

impl BlockStart {
    const ADDRESS_BITS: u32 = 48;
    const LENGTH_BITS: u32 = 10;

    /// QEMU keeps one number per callback. Virtual addresses have 48 significant bits, or 57 where
    /// the guest uses five levels of page tables, which the driver does not offer it; code above 48
    /// would be taken for other code, and only entries are told apart by address.
    fn pack(&self) -> u64 {
        let enters = match self.enters {
            None => 0,
            Some(EntryKind::Interrupt) => 1,
            Some(EntryKind::Fault) => 2,
            Some(EntryKind::Switch) => 3,
        };
        let length = (self.length as u64).min((1 << Self::LENGTH_BITS) - 1);
        self.address << (64 - Self::ADDRESS_BITS) >> (64 - Self::ADDRESS_BITS)
            | length << Self::ADDRESS_BITS
            | enters << (Self::ADDRESS_BITS + Self::LENGTH_BITS)
    }

    fn unpack(packed: u64) -> BlockStart {
        let above = packed >> Self::ADDRESS_BITS;
        let enters = match above >> Self::LENGTH_BITS {
            1 => Some(EntryKind::Interrupt),
            2 => Some(EntryKind::Fault),
            3 => Some(EntryKind::Switch),
            _ => None,
        };
        let unused = 64 - Self::ADDRESS_BITS;
        BlockStart {
            address: ((packed << unused) as i64 >> unused) as u64,
            length: (above & ((1 << Self::LENGTH_BITS) - 1)) as usize,
            enters,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_block_callback_has_to_know_fits_one_number() {
        for enters in [None, Some(EntryKind::Interrupt), Some(EntryKind::Switch)] {
            for address in [0x0000_7fff_ffff_f001, 0xffff_ffff_81c0_0b90, 0xffff_8000_0000_0000] {
                let start = BlockStart { address, length: 512, enters };
                assert_eq!(BlockStart::unpack(start.pack()), start);
            }
        }
    }
}
