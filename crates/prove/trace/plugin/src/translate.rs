//! Which callbacks a block of instructions gets when QEMU translates it.
//!
//! Kernel code, told by addresses in the upper half, gets one per block and one per access to
//! memory. User code gets them with `user=on` only, so that user threads that wait for each other
//! by spinning cost nothing; with `scope=program` user code gets them and kernel code gets none.
//! Before arming, nothing gets any but the marks of then: callbacks on
//! everything make a guest boot nine times slower. Of a guest that has the code of windows translated
//! apart (`Mark::Apart`), kernel code gets none that is translated while no window is open.

use std::ffi::{c_uint, c_void};

use knee_marks::{Entry, EntryKind, Mark};

use crate::calls::Ends;
use crate::executing::{current, locate};
use crate::qemu::{AccessInfo, Block, Instruction, arm};
use crate::session;
use crate::vcpu::{BlockStart, vcpu};

/// Return from an interrupt or exception in 64-bit code.
const IRETQ: [u8; 2] = [0x48, 0xcf];

pub(crate) fn is_kernel(address: u64) -> bool {
    address >> 63 == 1
}

/// Looks for entries and for the marks that come before tests, in user code.
pub(crate) fn before_arming(block: &Block) {
    for insn in block.instructions() {
        if is_kernel(insn.address()) {
            return;
        }
        let code = insn.code();
        if let Some(entry) = Entry::decode(&code) {
            session::learn(entry);
        } else if let Some(mark @ (Mark::Apart | Mark::Arm)) = Mark::decode(&code) {
            on_mark(insn, mark);
        }
    }
}

/// Gives a block the callbacks that it needs while tests run.
pub(crate) fn armed(block: &Block) {
    let length = block.instructions().len();
    let Some(first) = block.instructions().next() else { return };
    let kernel = is_kernel(first.address());
    let user = session::counts_user();
    let stack = !kernel || session::counts_stack();
    if kernel && !(session::counts_kernel() && session::is_watching()) {
        return;
    }
    let ends = block.instructions().last().map_or(Ends::Otherwise, |last| ends(&last.code()));
    if kernel || user {
        let enters = if kernel { session::entry_at(first.address()) } else { None };
        let start = BlockStart { address: first.address(), length, enters, ends };
        block.on_execute(on_block, start.pack());
    }
    for (at, insn) in block.instructions().enumerate() {
        let code = insn.code();
        let is_last = at + 1 == length;
        let calls = is_last && ends == Ends::Call;
        if calls && (kernel || user) {
            insn.on_execute(on_call, insn.address());
        }
        if (kernel || user) && is_repeated_string(&code) {
            insn.on_execute(on_repeat, insn.address());
        }
        // A call pushes what it returns to after all else.
        let pushes = u8::from(calls && !stack);
        match if is_last { own_accesses(&code) } else { None } {
            _ if !kernel && !user => {}
            _ if !stack && is_of_stack(&code) => {}
            None => insn.on_access(on_access, insn.address()),
            Some(own) if own == pushes => {}
            Some(own) => {
                insn.on_execute(on_last, (own - pushes).into());
                insn.on_access(on_access_of_last, insn.address());
            }
        }
        if kernel && *code == IRETQ {
            insn.on_execute(on_return, insn.address() + IRETQ.len() as u64);
        } else if !kernel && let Some(mark) = Mark::decode(&code) {
            on_mark(insn, mark);
        }
    }
}

/// Whether it is an instruction on a string that is repeated. Before version 10.0 QEMU jumps back to it
/// for each element, to a block that begins with it; but a CPU executes one instruction.
fn is_repeated_string(code: &[u8]) -> bool {
    let opcode = match *code {
        [0xf2 | 0xf3, 0x40..=0x4f, opcode, ..] | [0xf2 | 0xf3, opcode, ..] => opcode,
        _ => return false,
    };
    // ins, outs; movs, cmps; stos, lods, scas
    matches!(opcode, 0x6c..=0x6f | 0xa4..=0xa7 | 0xaa..=0xaf)
}

/// How many accesses to memory an instruction makes that is the last of its block, for jumps and
/// the simple ones.
///
/// QEMU 7.2 does not take back the callback of the last instruction if it leaves the block by a
/// helper, such as a return, to find the next block, a conditional jump, to compute flags, and
/// anything that crosses a page. What comes then in a helper of its own, until another callback is
/// set, counts as its access: atomic instructions of user code, and the descriptors that the
/// delivery of an interrupt reads and the frame that it pushes. So no more than its own accesses are
/// taken. What `iretq` and `sysretq` access is on their own stack, and is not worth counting.
fn own_accesses(code: &[u8]) -> Option<u8> {
    let operand_in_memory = |modrm: u8| u8::from(modrm >> 6 != 0b11);
    match *opcode(code) {
        // jcc, loop, jrcxz, jmp
        [0x70..=0x7f | 0xe0..=0xe3 | 0xe9 | 0xeb, ..] | [0x0f, 0x80..=0x8f, ..] => Some(0),
        // iretq, sysretq
        [0xcf] | [0x0f, 0x07] => Some(0),
        // call, ret, push, pop
        [0xe8 | 0xc2 | 0xc3, ..] | [0x50..=0x5f] => Some(1),
        // mov, cmp, test, movslq, movzx, movsx
        [0x88..=0x8b | 0xc6 | 0xc7 | 0x38..=0x3b | 0x84 | 0x85 | 0x63, modrm, ..]
        | [0x0f, 0xb6 | 0xb7 | 0xbe | 0xbf, modrm, ..] => Some(operand_in_memory(modrm)),
        [0xff, modrm, ..] => match modrm >> 3 & 0b111 {
            // call
            2 => Some(1 + operand_in_memory(modrm)),
            // jmp
            4 => Some(operand_in_memory(modrm)),
            _ => None,
        },
        _ => None,
    }
}

/// Whether an instruction accesses nothing but the stack: it pushes or pops a register, returns, or
/// moves or compares something relative to the stack pointer. Calls are not among them, as some read
/// elsewhere where to call.
fn is_of_stack(code: &[u8]) -> bool {
    let from_stack_pointer =
        |modrm: u8, sib: u8| modrm >> 6 != 0b11 && modrm & 7 == 4 && sib & 7 == 4;
    let prefixes = code.iter().take_while(|byte| is_prefix(byte)).count();
    let (extended, opcode) = match code[prefixes..] {
        // With this bit of REX the base of an address is another register.
        [rex @ 0x40..=0x4f, ref rest @ ..] => (rex & 1 == 1, rest),
        ref rest => (false, rest),
    };
    match *opcode {
        [0x50..=0x5f] | [0xc2 | 0xc3, ..] => true,
        [
            0x88..=0x8b | 0xc6 | 0xc7 | 0x38..=0x3b | 0x80 | 0x81 | 0x83 | 0x84 | 0x85 | 0x63,
            modrm,
            sib,
            ..,
        ]
        | [0x0f, 0xb6 | 0xb7 | 0xbe | 0xbf, modrm, sib, ..] => {
            !extended && from_stack_pointer(modrm, sib)
        }
        _ => false,
    }
}

/// What the last instruction of a block does to the call stack.
fn ends(code: &[u8]) -> Ends {
    match *opcode(code) {
        [0xe8, ..] => Ends::Call,
        [0xff, modrm, ..] if modrm >> 3 & 0b111 == 2 => Ends::Call,
        [0xc2 | 0xc3, ..] => Ends::Return,
        // iretq, sysretq
        [0xcf] | [0x0f, 0x07] => Ends::Leaves,
        _ => Ends::Otherwise,
    }
}

/// An instruction from its opcode on.
fn opcode(code: &[u8]) -> &[u8] {
    match &code[code.iter().take_while(|byte| is_prefix(byte)).count()..] {
        // REX
        [0x40..=0x4f, rest @ ..] => rest,
        opcode => opcode,
    }
}

/// Any but REX.
fn is_prefix(byte: &u8) -> bool {
    matches!(byte, 0x2e | 0x3e | 0x65 | 0x66 | 0xf2 | 0xf3)
}

fn on_mark(insn: Instruction<'_>, mark: Mark) {
    match mark {
        Mark::Begin => insn.on_execute(on_begin, 0),
        Mark::End => insn.on_execute(on_end, 0),
        Mark::Open(side) => insn.on_execute_with_registers(on_open, side.into()),
        Mark::Close(side) => insn.on_execute_with_registers(on_close, side.into()),
        Mark::Flush => insn.on_execute(on_flush, 0),
        Mark::Apart => insn.on_execute(on_apart, 0),
        Mark::Arm => insn.on_execute(on_arm, 0),
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

extern "C" fn on_flush(_: c_uint, _: *mut c_void) {
    session::flush();
}

extern "C" fn on_apart(_: c_uint, _: *mut c_void) {
    session::apart();
}

extern "C" fn on_open(cpu: c_uint, side: *mut c_void) {
    let cpu = locate(cpu);
    vcpu(cpu, |vcpu| session::open(side.addr(), cpu, vcpu));
}

extern "C" fn on_close(cpu: c_uint, side: *mut c_void) {
    vcpu(locate(cpu), |vcpu| session::close(side.addr(), vcpu));
}

extern "C" fn on_block(cpu: c_uint, start: *mut c_void) {
    if session::has_windows() {
        vcpu(locate(cpu), |vcpu| vcpu.block(|| BlockStart::unpack(start.addr() as u64)));
    }
}

extern "C" fn on_call(cpu: c_uint, pc: *mut c_void) {
    vcpu(current(cpu), |vcpu| vcpu.call(pc.addr() as u64));
}

extern "C" fn on_repeat(cpu: c_uint, pc: *mut c_void) {
    vcpu(current(cpu), |vcpu| vcpu.repeat(pc.addr() as u64));
}

extern "C" fn on_return(cpu: c_uint, next: *mut c_void) {
    vcpu(current(cpu), |vcpu| vcpu.returns(next.addr() as u64));
}

extern "C" fn on_access(cpu: c_uint, info: u32, address: u64, pc: *mut c_void) {
    vcpu(current(cpu), |vcpu| vcpu.access(AccessInfo(info), address, pc.addr() as u64));
}

extern "C" fn on_last(cpu: c_uint, own: *mut c_void) {
    vcpu(current(cpu), |vcpu| vcpu.last_of_block(own.addr()));
}

extern "C" fn on_access_of_last(cpu: c_uint, info: u32, address: u64, pc: *mut c_void) {
    vcpu(current(cpu), |vcpu| {
        if vcpu.is_access_of_last() {
            vcpu.access(AccessInfo(info), address, pc.addr() as u64);
        }
    });
}

impl BlockStart {
    const ADDRESS_BITS: u32 = 48;
    const LENGTH_BITS: u32 = 10;
    const ENTERS_BITS: u32 = 2;

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
        let ends = match self.ends {
            Ends::Otherwise => 0,
            Ends::Call => 1,
            Ends::Return => 2,
            Ends::Leaves => 3,
        };
        let length = (self.length as u64).min((1 << Self::LENGTH_BITS) - 1);
        self.address << (64 - Self::ADDRESS_BITS) >> (64 - Self::ADDRESS_BITS)
            | length << Self::ADDRESS_BITS
            | enters << (Self::ADDRESS_BITS + Self::LENGTH_BITS)
            | ends << (Self::ADDRESS_BITS + Self::LENGTH_BITS + Self::ENTERS_BITS)
    }

    fn unpack(packed: u64) -> BlockStart {
        let above = packed >> Self::ADDRESS_BITS;
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
        let unused = 64 - Self::ADDRESS_BITS;
        BlockStart {
            address: ((packed << unused) as i64 >> unused) as u64,
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
    fn what_the_last_of_a_block_accesses_is_known_of_jumps_and_simple_ones() {
        let own = own_accesses;
        assert_eq!(own(&[0x0f, 0x85, 0x40, 0x0f, 0x00, 0x00]), Some(0), "jne");
        assert_eq!(own(&[0x2e, 0x75, 0x10]), Some(0), "jne with a hint");
        assert_eq!(own(&[0x48, 0x0f, 0x07]), Some(0), "sysretq");
        assert_eq!(own(&IRETQ), Some(0), "iretq");
        assert_eq!(own(&[0xf3, 0xc3]), Some(1), "repz ret");
        assert_eq!(own(&[0xe8, 0, 0, 0, 0]), Some(1), "call");
        assert_eq!(own(&[0x41, 0xff, 0xd3]), Some(1), "call *%r11");
        assert_eq!(own(&[0xff, 0xe0]), Some(0), "jmp *%rax");
        assert_eq!(own(&[0xff, 0x14, 0xc5, 0, 2, 0, 0x82]), Some(2), "call *table(,%rax,8)");
        assert_eq!(own(&[0xff, 0x24, 0xc5, 0, 2, 0, 0x82]), Some(1), "jmp *table(,%rax,8)");
        assert_eq!(own(&[0x41, 0x54]), Some(1), "push %r12");
        assert_eq!(own(&[0x65, 0x48, 0x8b, 0x04, 0x25, 0, 0, 0, 0]), Some(1), "mov %gs:0,%rax");
        assert_eq!(own(&[0x48, 0x89, 0xe5]), Some(0), "mov %rsp,%rbp");
        assert_eq!(own(&[0xff, 0x30]), None, "push (%rax)");
        assert_eq!(own(&[0xf0, 0x0f, 0xc1, 0x07]), None, "lock xadd %eax,(%rdi)");
        assert_eq!(own(&[0xf3, 0x48, 0xa5]), None, "rep movsq");
    }

    #[test]
    fn what_accesses_the_stack_only_is_known_and_calls_are_not_among_it() {
        for code in [
            &[0x55][..],
            &[0x41, 0x5f],
            &[0xf3, 0xc3],
            &[0x48, 0x8b, 0x44, 0x24, 0x08],
            &[0x44, 0x89, 0x6c, 0x24, 0x1c],
            &[0x48, 0xc7, 0x04, 0x24, 0, 0, 0, 0],
            &[0x0f, 0xb6, 0x44, 0x24, 0x07],
        ] {
            assert!(is_of_stack(code), "{code:x?}");
        }
        for code in [
            // call; push (%rax); mov (%r12),%rax; mov %gs:0,%rax; mov %esp,%ebp; lock add to (%rsp)
            &[0xe8, 0, 0, 0, 0][..],
            &[0xff, 0x30],
            &[0x49, 0x8b, 0x04, 0x24],
            &[0x65, 0x48, 0x8b, 0x04, 0x25, 0, 0, 0, 0],
            &[0x89, 0xe5],
            &[0xf0, 0x83, 0x44, 0x24, 0xfc, 0],
            // mov (%rcx,%rsp's number as no index),%rax
            &[0x48, 0x8b, 0x04, 0x21],
        ] {
            assert!(!is_of_stack(code), "{code:x?}");
        }
    }

    #[test]
    fn calls_and_returns_are_told_from_jumps() {
        assert_eq!(ends(&[0xe8, 0, 0, 0, 0]), Ends::Call, "call");
        assert_eq!(ends(&[0x41, 0xff, 0xd3]), Ends::Call, "call *%r11");
        assert_eq!(ends(&[0x2e, 0xff, 0x14, 0xc5, 0, 2, 0, 0x82]), Ends::Call, "cs call *table");
        assert_eq!(ends(&[0xf3, 0xc3]), Ends::Return, "repz ret");
        assert_eq!(ends(&[0xc2, 0x08, 0x00]), Ends::Return, "ret $8");
        assert_eq!(ends(&IRETQ), Ends::Leaves, "iretq");
        assert_eq!(ends(&[0x48, 0x0f, 0x07]), Ends::Leaves, "sysretq");
        assert_eq!(ends(&[0xe9, 0, 0, 0, 0]), Ends::Otherwise, "jmp");
        assert_eq!(ends(&[0xff, 0xe0]), Ends::Otherwise, "jmp *%rax");
        assert_eq!(ends(&[0x0f, 0x05]), Ends::Otherwise, "syscall");
        assert_eq!(ends(&[]), Ends::Otherwise);
    }

    #[test]
    fn strings_are_told_from_what_has_the_same_prefix() {
        for code in [&[0xf3, 0xaa][..], &[0xf3, 0x48, 0xa5], &[0xf2, 0xae]] {
            assert!(is_repeated_string(code), "{code:x?}");
        }
        for code in [&[0xf3, 0xc3][..], &[0xf3, 0x0f, 0x1e, 0xfa], &[0xf3, 0x90], &[0xaa], &[0xf3]]
        {
            assert!(!is_repeated_string(code), "{code:x?}");
        }
    }

    #[test]
    fn what_a_block_callback_has_to_know_fits_one_number() {
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
