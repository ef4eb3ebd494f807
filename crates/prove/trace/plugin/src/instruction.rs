//! Decodes what the plugin must know about x86-64 instructions.

use crate::block::Ends;
use crate::place::Update;

/// The bytes of `iretq`, the return from an interrupt or exception in 64-bit code.
pub(crate) const IRETQ: [u8; 2] = [0x48, 0xcf];

/// Returns whether this is a repeated string instruction. A real CPU executes all repetitions as one
/// instruction. QEMU before version 10.0 executes a new block for each element, and each of these blocks
/// begins with the string instruction.
pub(crate) fn is_repeated_string(code: &[u8]) -> bool {
    let opcode = match *code {
        [0xf2 | 0xf3, 0x40..=0x4f, opcode, ..] | [0xf2 | 0xf3, opcode, ..] => opcode,
        _ => return false,
    };
    // ins, outs; movs, cmps; stos, lods, scas
    matches!(opcode, 0x6c..=0x6f | 0xa4..=0xa7 | 0xaa..=0xaf)
}

/// Returns the number of memory accesses of an instruction that ends a block, or `None` if this instruction
/// is neither a jump nor a simple instruction.
///
/// QEMU 7.2 does not clear the memory callback of a block's last instruction if that instruction leaves the
/// block through a helper. Examples are returns (a helper finds the next block), conditional jumps (a helper
/// computes the flags), and instructions that cross a page. Until another callback is set, QEMU then reports
/// the accesses of other helpers as accesses of this instruction. For example, helpers execute atomic
/// instructions of user code; to deliver an interrupt, a helper reads descriptors and writes to the stack. So
/// the plugin records no more accesses for an instruction than the instruction itself makes. It records no
/// accesses for `iretq` and `sysretq`: `sysretq` makes none, and those of `iretq` are implicit accesses,
/// which the plugin does not count.
pub(crate) fn own_accesses(code: &[u8]) -> Option<u8> {
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

/// Returns whether an instruction accesses only the stack: it pushes or pops a register, returns,
/// or accesses an operand relative to the stack pointer. Calls are excluded, since some read their
/// target from other memory.
pub(crate) fn is_of_stack(code: &[u8]) -> bool {
    let from_stack_pointer =
        |modrm: u8, sib: u8| modrm >> 6 != 0b11 && modrm & 7 == 4 && sib & 7 == 4;
    let prefixes = code.iter().take_while(|byte| is_prefix(byte)).count();
    let (extended, opcode) = match code[prefixes..] {
        // If bit 0 of REX is set, the base of the address is another register.
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

/// Returns how an instruction changes memory.
pub(crate) fn update(code: &[u8]) -> Update {
    let is_prefix =
        |byte: &&u8| matches!(byte, 0x26 | 0x2e | 0x36 | 0x3e | 0x64..=0x67 | 0xf0 | 0xf2 | 0xf3);
    let (prefixes, rest) = code.split_at(code.iter().take_while(is_prefix).count());
    let is_locked = prefixes.contains(&0xf0);
    match *without_rex(rest) {
        // xchg, which is atomic without a prefix
        [0x86 | 0x87, modrm, ..] if modrm >> 6 != 0b11 => Update::Atomic,
        _ if !is_locked => Update::Plain,
        // cmpxchg
        [0x0f, 0xb0 | 0xb1, ..] => Update::CompareExchange,
        // cmpxchg8b, cmpxchg16b
        [0x0f, 0xc7, modrm, ..] if modrm >> 3 & 0b111 == 1 => Update::CompareExchange,
        _ => Update::Atomic,
    }
}

/// Returns the effect of a block's last instruction on the call stack.
pub(crate) fn ends(code: &[u8]) -> Ends {
    match *opcode(code) {
        [0xe8, ..] => Ends::Call,
        [0xff, modrm, ..] if modrm >> 3 & 0b111 == 2 => Ends::Call,
        [0xc2 | 0xc3, ..] => Ends::Return,
        // iretq, sysretq
        [0xcf] | [0x0f, 0x07] => Ends::Leaves,
        _ => Ends::Otherwise,
    }
}

/// Returns the bytes of an instruction, starting with its opcode.
fn opcode(code: &[u8]) -> &[u8] {
    without_rex(&code[code.iter().take_while(|byte| is_prefix(byte)).count()..])
}

/// Returns the bytes without the REX prefix, if they begin with one. A REX prefix follows all other prefixes.
fn without_rex(code: &[u8]) -> &[u8] {
    match code {
        [0x40..=0x4f, opcode @ ..] => opcode,
        opcode => opcode,
    }
}

/// Returns whether a byte is a prefix other than REX.
fn is_prefix(byte: &u8) -> bool {
    matches!(byte, 0x2e | 0x3e | 0x65 | 0x66 | 0xf2 | 0xf3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accesses_of_jumps_and_simple_instructions_are_counted() {
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
    fn instructions_that_access_only_the_stack_are_recognised_and_calls_are_excluded() {
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
            // mov (%rcx),%rax with a SIB byte whose index is the number of %rsp, which means no
            // index
            &[0x48, 0x8b, 0x04, 0x21],
        ] {
            assert!(!is_of_stack(code), "{code:x?}");
        }
    }

    #[test]
    fn atomic_instructions_are_distinguished_from_plain_ones() {
        use Update::{Atomic, CompareExchange, Plain};
        for (code, expected, what) in [
            (&[0xf0, 0x0f, 0xc1, 0x07][..], Atomic, "lock xadd %eax,(%rdi)"),
            (&[0xf0, 0x48, 0x83, 0x00, 0x01], Atomic, "lock addq $1,(%rax)"),
            (&[0xf0, 0x0f, 0xb1, 0x17], CompareExchange, "lock cmpxchg %edx,(%rdi)"),
            (&[0xf0, 0x49, 0x0f, 0xb1, 0x14, 0x24], CompareExchange, "lock cmpxchg %rdx,(%r12)"),
            (&[0x3e, 0xf0, 0x0f, 0xb0, 0x0f], CompareExchange, "ds lock cmpxchg %cl,(%rdi)"),
            (&[0xf0, 0x48, 0x0f, 0xc7, 0x0e], CompareExchange, "lock cmpxchg16b (%rsi)"),
            (&[0x0f, 0xb1, 0x17], Plain, "cmpxchg %edx,(%rdi)"),
            (&[0x65, 0x48, 0x0f, 0xc7, 0x0e], Plain, "cmpxchg16b %gs:(%rsi)"),
            (&[0x48, 0x87, 0x07], Atomic, "xchg %rax,(%rdi)"),
            (&[0x48, 0x87, 0xc7], Plain, "xchg %rax,%rdi"),
            (&[0xc6, 0x07, 0x00], Plain, "movb $0,(%rdi)"),
            (&[], Plain, "nothing"),
        ] {
            assert_eq!(update(code), expected, "{what}");
        }
    }

    #[test]
    fn calls_and_returns_are_distinguished_from_jumps() {
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
    fn string_instructions_are_distinguished_from_others_with_the_same_prefix() {
        for code in [&[0xf3, 0xaa][..], &[0xf3, 0x48, 0xa5], &[0xf2, 0xae]] {
            assert!(is_repeated_string(code), "{code:x?}");
        }
        for code in [&[0xf3, 0xc3][..], &[0xf3, 0x0f, 0x1e, 0xfa], &[0xf3, 0x90], &[0xaa], &[0xf3]]
        {
            assert!(!is_repeated_string(code), "{code:x?}");
        }
    }
}
