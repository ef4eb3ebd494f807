//! Addresses at which interrupts and exceptions enter the kernel, at which the kernel switches tasks, and at
//! which it begins work that operations have deferred.
//!
//! The plugin ignores what the CPU does between the entry of an interrupt and the return from it. It
//! recognises an entry by its address, and a return by the instruction `iretq`. Exceptions also return with
//! `iretq`. So the plugin must recognise the entry of an exception inside an interrupt; otherwise it would
//! take the exception's return for the interrupt's. An exception outside of interrupts is part of the
//! operation: if the plugin ignored it, no test could examine page faults.
//!
//! The symbol names are those of Linux 5.8 and later. Version 5.8 introduced the prefix `asm_` for
//! the entry code (arch/x86/include/asm/idtentry.h).

use crate::{CODE_BYTES, KernelSymbol, decode, encode, kernel_symbols};

// The SIB bytes have scale 2, base rbx, and index rdx, rbp, rsi or rdi.
const SIB_DEFERRED: u8 = 0x53;
const SIB_INTERRUPT: u8 = 0x6b;
const SIB_FAULT: u8 = 0x73;
const SIB_SWITCH: u8 = 0x7b;

/// The distance from one entry stub of a device or spurious vector to the next, in bytes. With indirect
/// branch tracking, the distance is twice as large (IDT_ALIGN of arch/x86/include/asm/irq_vectors.h).
const STUB_STEP: u64 = 8;
/// The maximum size of a table of stubs, in bytes: 256 stubs at the larger distance.
const MAX_STUBS_BYTES: u64 = 256 * 16;

/// What happens at an address of the kernel's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// An interrupt, an NMI, a machine check, a debug exception or a double fault enters the kernel. What the
    /// CPU does until the return is not part of the operation.
    Interrupt,
    /// An exception that the interrupted code caused, such as a page fault, enters the kernel.
    Fault,
    /// The CPU switches from one task to another.
    Switch,
    /// The CPU enters a function that does deferred work.
    Deferred,
}

/// An address that the plugin has to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// What happens at the address.
    pub kind: EntryKind,
    /// Virtual address of the first instruction, in the upper 2 GiB.
    pub address: u64,
}

impl Entry {
    /// The instruction that encodes this entry; `None` if the address is not in the upper 2 GiB.
    pub fn code(self) -> Option<[u8; CODE_BYTES]> {
        let sib = match self.kind {
            EntryKind::Interrupt => SIB_INTERRUPT,
            EntryKind::Fault => SIB_FAULT,
            EntryKind::Switch => SIB_SWITCH,
            EntryKind::Deferred => SIB_DEFERRED,
        };
        let displacement = self.address as u32;
        (extend(displacement) == self.address && self.address >> 63 == 1)
            .then(|| encode(sib, displacement))
    }

    /// The entry that an instruction encodes, if any.
    pub fn decode(code: &[u8]) -> Option<Entry> {
        let (sib, displacement) = decode(code)?;
        let kind = match sib {
            SIB_INTERRUPT => EntryKind::Interrupt,
            SIB_FAULT => EntryKind::Fault,
            SIB_SWITCH => EntryKind::Switch,
            SIB_DEFERRED => EntryKind::Deferred,
            _ => return None,
        };
        Some(Entry { kind, address: extend(displacement) })
    }
}

fn extend(displacement: u32) -> u64 {
    i64::from(displacement as i32) as u64
}

/// Calls `found` for every entry in the text of `/proc/kallsyms`. The file must be read as root:
/// other users see zeroes instead of the addresses.
pub fn entries(kallsyms: &str, mut found: impl FnMut(Entry)) {
    // One symbol stands for a table of stubs, which ends where the next symbol begins.
    let mut stubs = None;
    // No module contains entry code.
    let symbols = kernel_symbols(kallsyms).filter(|symbol| !symbol.is_of_module);
    for KernelSymbol { address, name, .. } in symbols {
        if let Some(start) = stubs.take_if(|start| *start < address) {
            for address in (start..address.min(start + MAX_STUBS_BYTES)).step_by(STUB_STEP as usize)
            {
                found(Entry { kind: EntryKind::Interrupt, address });
            }
        }
        if matches!(name, "irq_entries_start" | "spurious_entries_start") {
            stubs = Some(address);
        } else if let Some(kind) = kind(name) {
            found(Entry { kind, address });
        }
    }
}

fn kind(name: &str) -> Option<EntryKind> {
    match name {
        "__switch_to_asm" => return Some(EntryKind::Switch),
        // Runs the RCU callbacks whose grace period has ended (kernel/rcu/tree.c).
        "rcu_do_batch" => return Some(EntryKind::Deferred),
        _ => {}
    }
    if name.starts_with("asm_sysvec_") {
        return Some(EntryKind::Interrupt);
    }
    // The stubs jump to asm_common_interrupt and asm_spurious_interrupt, which are not entries.
    match name.strip_prefix("asm_exc_")? {
        "nmi" | "machine_check" | "debug" | "double_fault" => Some(EntryKind::Interrupt),
        _ => Some(EntryKind::Fault),
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::vec::Vec;

    use super::*;

    #[test]
    fn entries_are_found_by_name_and_each_stub_is_an_entry() {
        let kallsyms = "\
            ffffffff81c00000 T asm_exc_page_fault\n\
            ffffffff81c00200 t irq_entries_start\n\
            ffffffff81c00210 t spurious_entries_start\n\
            ffffffff81c00218 T asm_exc_nmi\n\
            ffffffff81c00300 T asm_common_interrupt\n\
            ffffffff81c00400 T __switch_to_asm\n\
            ffffffff81c00480 t rcu_do_batch\n\
            ffffffffc0000000 t asm_sysvec_of_a_module\t[module]\n";
        let mut found = Vec::new();
        entries(kallsyms, |entry| found.push((entry.kind, entry.address & 0xfff)));
        assert_eq!(
            found,
            [
                (EntryKind::Fault, 0x000),
                (EntryKind::Interrupt, 0x200),
                (EntryKind::Interrupt, 0x208),
                (EntryKind::Interrupt, 0x210),
                (EntryKind::Interrupt, 0x218),
                (EntryKind::Switch, 0x400),
                (EntryKind::Deferred, 0x480),
            ]
        );
    }

    #[test]
    fn every_entry_is_decoded_and_is_not_a_mark() {
        let kinds =
            [EntryKind::Interrupt, EntryKind::Fault, EntryKind::Switch, EntryKind::Deferred];
        for kind in kinds {
            let entry = Entry { kind, address: 0xffff_ffff_81c0_0b90 };
            let code = entry.code().unwrap();
            assert_eq!(Entry::decode(&code), Some(entry));
            assert_eq!(crate::Mark::decode(&code), None);
        }
    }

    #[test]
    fn an_address_below_the_upper_two_gibibytes_cannot_be_encoded() {
        for address in [0, 0x7fff_f000, 0xffff_ffff_7fff_fff8] {
            assert_eq!(Entry { kind: EntryKind::Fault, address }.code(), None);
        }
    }
}
