//! What a virtual CPU does, and what of it belongs to the side whose window is open there.
//!
//! An interrupt inside a window is not the operation's. It is left out by nesting: entering at an
//! interrupt's address is one deeper, and from there on every entry, faults included, is. A return
//! is an `iretq`; but the kernel also returns to itself with one to serialize the CPU
//! (`iret_to_self` of arch/x86/include/asm/sync_core.h), and then the next instruction is the one
//! behind it. So whether an `iretq` ended a level shows when the next block begins. What is recorded
//! continues where the interrupted code does: an interrupt hides nothing.
//!
//! A task that is switched out, because it sleeps or another has its turn, is not the CPU's business
//! until it is back. The running task cannot be seen, but `__switch_to_asm` saves a task's registers on its
//! stack and the stack pointer in its `task_struct`, and reads them from the same addresses when it
//! switches back. So the addresses that it wrote on the way out are remembered, and when it reads
//! one of them the task is there again, as deep in interrupts as it was.

use std::cell::UnsafeCell;
use std::ffi::c_uint;

use knee_marks::EntryKind;

use crate::block::BlockStart;
use crate::calls::INSTRUCTION_BYTES;
use crate::lines::FirstFew;
use crate::pages::{PAGE_BYTES, Pages};
use crate::qemu::AccessInfo;
use crate::side::Side;

/// QEMU's x86 machines have 255 virtual CPUs without interrupt remapping.
pub(crate) const MAX_VCPUS: usize = 256;
/// `__switch_to_asm` is shorter, and what follows it within this distance does not switch.
const SWITCH_BYTES: u64 = 256;
/// It saves six registers, flags in older kernels, the stack pointer and the stack's canary.
const MAX_SAVED: usize = 16;

/// Whether the task whose window is open runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Presence {
    Here,
    /// It is being switched out, by the code at this address.
    Leaves(u64),
    Away,
    /// Another is being switched out: it may come back.
    MayArrive(u64),
}

/// A virtual CPU.
pub(crate) struct Vcpu {
    /// The side whose window is open, with its number.
    side: Option<(usize, Box<Side>)>,
    /// Interrupts, and exceptions inside of them, that have not returned.
    depth: u32,
    /// An `iretq` is being executed inside an interrupt; this is the address behind it.
    returning: Option<u64>,
    presence: Presence,
    /// Whether what happens now belongs to the side: its task is there, and in no interrupt.
    counts: bool,
    /// Accesses that the last instruction of a block has still to make.
    last_accesses: usize,
    /// The repeated instruction on a string that the last block ended with, at this address.
    repeated: Option<u64>,
    /// Where the task's registers were saved when it was switched out.
    saved: FirstFew<MAX_SAVED>,
    pages: Pages,
}

impl Vcpu {
    const fn new() -> Vcpu {
        Vcpu {
            side: None,
            depth: 0,
            returning: None,
            presence: Presence::Here,
            counts: false,
            last_accesses: 0,
            repeated: None,
            saved: FirstFew::EMPTY,
            pages: Pages::EMPTY,
        }
    }

    pub(crate) fn is_open(&self) -> bool {
        self.side.is_some()
    }

    /// Opens the window: what happens from now on is recorded in `side`.
    pub(crate) fn open(&mut self, number: usize, mut side: Box<Side>) {
        side.calls.open();
        *self = Vcpu { side: Some((number, side)), counts: true, ..Vcpu::new() };
    }

    /// Closes the window.
    pub(crate) fn close(&mut self) -> Option<(usize, Box<Side>)> {
        self.counts = false;
        self.side.take()
    }

    /// A block begins.
    #[inline]
    pub(crate) fn block(&mut self, start: impl FnOnce() -> BlockStart) {
        if self.side.is_none() {
            return;
        }
        let start = start();
        self.pages.block(start.address);
        if !self.counts || self.returning.is_some() || start.enters.is_some() {
            self.follow(&start);
            self.counts = self.depth == 0 && self.presence == Presence::Here;
        }
        if self.counts
            && let Some((_, side)) = self.side.as_mut()
        {
            // Its first time was in the block before. It may be interrupted by a fault and go on.
            let after = self.repeated.map(|repeated| start.address.wrapping_sub(repeated));
            let again = after == Some(0);
            if after.is_some_and(|distance| (1..=INSTRUCTION_BYTES).contains(&distance)) {
                self.repeated = None;
            }
            side.count.instructions += start.length as u64 - u64::from(again);
            side.calls.block(&start);
        }
    }

    /// Follows the task into interrupts and out of them, and out of the CPU.
    fn follow(&mut self, start: &BlockStart) {
        let Some((_, side)) = self.side.as_mut() else { return };
        let switches = start.enters == Some(EntryKind::Switch);
        let still = |entry: u64| start.address.wrapping_sub(entry) < SWITCH_BYTES;
        match self.presence {
            Presence::Here => {}
            Presence::Leaves(_) | Presence::Away | Presence::MayArrive(_) if switches => {
                self.presence = Presence::MayArrive(start.address);
                return;
            }
            Presence::Leaves(entry) | Presence::MayArrive(entry) if still(entry) => return,
            Presence::Leaves(_) | Presence::Away | Presence::MayArrive(_) => {
                self.presence = Presence::Away;
                return;
            }
        }
        if let Some(behind) = self.returning.take()
            && start.address != behind
        {
            self.depth = self.depth.saturating_sub(1);
        }
        match start.enters {
            Some(EntryKind::Interrupt) => {
                side.count.interrupts += u64::from(self.depth == 0);
                self.depth += 1;
            }
            Some(EntryKind::Fault) if self.depth > 0 => self.depth += 1,
            Some(EntryKind::Switch) => {
                side.count.switches += 1;
                if self.depth == 0 {
                    side.calls.block(start);
                }
                self.presence = Presence::Leaves(start.address);
                self.saved = FirstFew::EMPTY;
            }
            Some(EntryKind::Fault) | None => {}
        }
    }

    /// A call is executed.
    pub(crate) fn call(&mut self, pc: u64) {
        if self.counts
            && let Some((_, side)) = self.side.as_mut()
        {
            side.calls.call(pc);
        }
    }

    /// A repeated instruction on a string is executed.
    pub(crate) fn repeat(&mut self, pc: u64) {
        if self.counts {
            self.repeated = Some(pc);
        }
    }

    /// An `iretq` is executed.
    pub(crate) fn returns(&mut self, behind: u64) {
        if self.depth > 0 && self.presence == Presence::Here {
            self.returning = Some(behind);
        }
    }

    /// The last instruction of a block is executed, which makes this many accesses.
    pub(crate) fn last_of_block(&mut self, accesses: usize) {
        self.last_accesses = accesses;
    }

    /// Whether an access that QEMU reports for such an instruction can be its own; see
    /// [`own_accesses`](crate::instruction::own_accesses).
    pub(crate) fn is_access_of_last(&mut self) -> bool {
        let is_own = self.last_accesses > 0;
        self.last_accesses = self.last_accesses.saturating_sub(1);
        is_own
    }

    /// An instruction accessed memory.
    #[inline]
    pub(crate) fn access(&mut self, info: AccessInfo, address: u64, pc: u64) {
        if !self.counts {
            return self.recognise(info, address);
        }
        let Some((_, side)) = self.side.as_mut() else { return };
        side.count.accesses += 1;
        let bytes = info.bytes();
        let here = PAGE_BYTES - address % PAGE_BYTES;
        if bytes <= here {
            side.access(&mut self.pages, info, address, bytes, pc);
        } else {
            // The pages of an access across two need not be neighbours in physical memory.
            side.access(&mut self.pages, info, address, here, pc);
            side.access(&mut self.pages, info, address + here, bytes - here, pc);
        }
    }

    /// An access that does not count may show that the task leaves, or that it is back.
    #[cold]
    fn recognise(&mut self, info: AccessInfo, address: u64) {
        match self.presence {
            Presence::Leaves(_) if info.is_store() => {
                self.saved.add(address);
            }
            Presence::MayArrive(_)
                if !info.is_store() && self.saved.as_slice().contains(&address) =>
            {
                self.presence = Presence::Here;
                self.counts = self.depth == 0;
            }
            _ => {}
        }
    }
}

/// Apart from each other, since each is written by another thread.
#[repr(align(128))]
struct Slot(UnsafeCell<Vcpu>);

// SAFETY: `vcpu` is the only way to a slot, and it is called on the thread of the slot's CPU only.
unsafe impl Sync for Slot {}

static VCPUS: [Slot; MAX_VCPUS] = [const { Slot(UnsafeCell::new(Vcpu::new())) }; MAX_VCPUS];

/// Calls `with` with the virtual CPU of this number. To be called from QEMU's callbacks with the
/// number that these were given, and not from `with`.
#[inline]
pub(crate) fn vcpu(number: c_uint, with: impl FnOnce(&mut Vcpu)) {
    let Some(slot) = VCPUS.get(number as usize) else { return };
    // SAFETY: QEMU executes a virtual CPU on one thread at a time and makes the callbacks of its
    // instructions there, one after the other. (With one thread for all CPUs, their turns are
    // ordered by that thread.) No callback is made while another's `with` runs: nothing in it
    // executes instructions of the guest. So this is the only reference.
    with(unsafe { &mut *slot.0.get() });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::Ends;

    const KERNEL: u64 = 0xffff_ffff_8100_0000;

    fn block(address: u64, enters: Option<EntryKind>) -> BlockStart {
        BlockStart { address, length: 1, enters, ends: Ends::Otherwise }
    }

    /// Runs blocks; `Err` is an iretq with the address behind it. Returns the side and how
    /// deep the CPU is at the end.
    fn run(blocks: &[Result<(u64, Option<EntryKind>), u64>]) -> (Box<Side>, u32) {
        let mut vcpu = Vcpu::new();
        vcpu.open(0, Box::new(Side::new()));
        for step in blocks {
            match *step {
                Ok((address, enters)) => vcpu.block(|| block(address, enters)),
                Err(behind) => vcpu.returns(behind),
            }
        }
        let depth = vcpu.depth;
        (vcpu.close().unwrap().1, depth)
    }

    #[test]
    fn an_interrupt_is_left_out_and_what_follows_is_not() {
        use EntryKind::Interrupt;
        let entry = Ok((KERNEL + 0x100, Some(Interrupt)));
        let end = Ok((KERNEL + 0x200, None));
        let (side, depth) =
            run(&[Ok((KERNEL, None)), entry, end, Err(KERNEL + 0x202), Ok((KERNEL + 8, None))]);
        assert_eq!((side.count.instructions, side.count.interrupts, depth), (2, 1, 0));
    }

    #[test]
    fn a_fault_within_an_interrupt_does_not_end_it() {
        use EntryKind::{Fault, Interrupt};
        let (side, depth) = run(&[
            Ok((KERNEL + 0x100, Some(Interrupt))),
            Ok((KERNEL + 0x300, Some(Fault))),
            Err(KERNEL + 0x202),
            Ok((KERNEL + 0x110, None)),
        ]);
        assert_eq!((side.count.instructions, side.count.interrupts, depth), (0, 1, 1));
    }

    #[test]
    fn a_fault_outside_belongs_to_the_operation() {
        let entry = Ok((KERNEL + 0x300, Some(EntryKind::Fault)));
        let (side, depth) = run(&[entry, Err(KERNEL + 0x202), Ok((0x40_0000, None))]);
        assert_eq!((side.count.instructions, side.count.interrupts, depth), (2, 0, 0));
    }

    #[test]
    fn a_repeated_instruction_counts_once_however_often_a_block_begins_with_it() {
        let mut vcpu = Vcpu::new();
        vcpu.open(0, Box::new(Side::new()));
        let string = KERNEL + 0x10;
        let mut run = |address, length, repeats: bool| {
            vcpu.block(|| BlockStart { length, ..block(address, None) });
            if repeats {
                vcpu.repeat(string);
            }
        };
        // Three instructions, the last of them repeated; two more repetitions; the instructions after it.
        run(KERNEL, 3, true);
        run(string, 1, true);
        run(string, 1, true);
        run(string + 3, 2, false);
        // A jump to it, and a fault in between.
        run(string, 1, true);
        run(KERNEL + 0x800, 4, false);
        run(string, 1, true);
        run(string + 3, 2, false);
        assert_eq!(vcpu.close().unwrap().1.count.instructions, 3 + 2 + 1 + 4 + 2);
    }

    #[test]
    fn serializing_the_cpu_ends_no_interrupt() {
        let (_, depth) = run(&[
            Ok((KERNEL + 0x100, Some(EntryKind::Interrupt))),
            Err(KERNEL + 0x502),
            Ok((KERNEL + 0x502, None)),
        ]);
        assert_eq!(depth, 1);
    }

    #[test]
    fn an_interrupt_right_after_another_is_no_deeper() {
        use EntryKind::Interrupt;
        let (side, depth) = run(&[
            Ok((KERNEL + 0x100, Some(Interrupt))),
            Err(KERNEL + 0x202),
            Ok((KERNEL + 0x108, Some(Interrupt))),
        ]);
        assert_eq!((side.count.interrupts, depth), (2, 1));
    }

    #[test]
    fn a_task_that_is_switched_out_is_away_until_its_registers_are_read() {
        let switch = KERNEL + 0x400;
        let mut vcpu = Vcpu::new();
        vcpu.open(0, Box::new(Side::new()));
        let mut run = |address: u64, enters| {
            vcpu.block(|| block(address, enters));
            vcpu.presence
        };
        assert_eq!(run(KERNEL, None), Presence::Here);
        assert_eq!(run(switch, Some(EntryKind::Switch)), Presence::Leaves(switch));
        assert_eq!(run(switch + 0x20, None), Presence::Leaves(switch));
        // The other task, with an interrupt of its own.
        assert_eq!(run(KERNEL + 0x800, None), Presence::Away);
        assert_eq!(run(KERNEL + 0x100, Some(EntryKind::Interrupt)), Presence::Away);
        assert_eq!(run(switch, Some(EntryKind::Switch)), Presence::MayArrive(switch));
        assert_eq!(run(KERNEL + 0x900, None), Presence::Away);
        let (_, side) = vcpu.close().unwrap();
        let count = side.count;
        assert_eq!((count.switches, count.interrupts, count.instructions), (1, 0, 1));
    }

    /// The callers of the code that runs at the end of these blocks.
    fn callers(blocks: &[(u64, Option<EntryKind>, Ends)]) -> Vec<u64> {
        let mut vcpu = Vcpu::new();
        vcpu.open(0, Box::new(Side::new()));
        for &(address, enters, ends) in blocks {
            // An access shows that a switched task is back, and only QEMU can make one.
            if matches!(vcpu.presence, Presence::MayArrive(_)) {
                vcpu.presence = Presence::Here;
                vcpu.counts = vcpu.depth == 0;
            }
            vcpu.block(|| BlockStart { address, length: 1, enters, ends });
            vcpu.call(address + 1);
            if ends == Ends::Leaves {
                vcpu.returns(address + 2);
            }
        }
        let (_, mut side) = vcpu.close().unwrap();
        let chain = side.calls.chain();
        side.calls.callers(chain).to_vec()
    }

    #[test]
    fn an_interrupt_between_a_call_and_its_callee_is_no_caller() {
        let (call, callee) = (KERNEL + 0x1000, KERNEL + 0x2000);
        let blocks = [
            (call, None, Ends::Call),
            (KERNEL + 0x100, Some(EntryKind::Interrupt), Ends::Call),
            (KERNEL + 0x300, None, Ends::Return),
            (KERNEL + 0x106, None, Ends::Leaves),
            (callee, None, Ends::Otherwise),
        ];
        assert_eq!(callers(&blocks), [call + 1]);
        // … and neither is one right before the callee returns.
        let back = [&blocks[1..4], &[(call + 6, None, Ends::Otherwise)]].concat();
        let blocks = [&blocks[..1], &[(callee, None, Ends::Return)], &back].concat();
        assert_eq!(callers(&blocks), []);
    }

    #[test]
    fn a_task_that_was_switched_out_keeps_its_callers() {
        let (call, switch) = (KERNEL + 0x1000, KERNEL + 0x400);
        let away = [
            (call, None, Ends::Call),
            (switch, Some(EntryKind::Switch), Ends::Otherwise),
            (KERNEL + 0x800, None, Ends::Call),
            (KERNEL + 0x900, None, Ends::Call),
            (switch, Some(EntryKind::Switch), Ends::Otherwise),
        ];
        let back = (KERNEL + 0x600, None, Ends::Return);
        assert_eq!(callers(&[&away[..], &[back]].concat()), [call + 1]);
        let there = (call + 6, None, Ends::Otherwise);
        assert_eq!(callers(&[&away[..], &[back, there]].concat()), []);
    }
}
