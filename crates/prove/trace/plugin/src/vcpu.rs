//! Decides which accesses of a virtual CPU belong to the operation that is being traced on that CPU.
//!
//! An interrupt during the operation does not belong to the operation, so the accesses of the interrupt are
//! ignored. The plugin tracks the nesting depth of interrupts. An interrupt increments the depth, and so does
//! a fault inside an interrupt. An `iretq` decrements the depth, with one exception: the kernel also uses
//! `iretq` to serialize the CPU (`iret_to_self` of arch/x86/include/asm/sync_core.h), and then execution
//! continues with the next instruction. So the address of the next block shows whether the `iretq` was a
//! return. After the return, recording continues with the interrupted code, so none of its accesses is
//! missed.
//!
//! While a task is switched out, because it sleeps or was preempted, the accesses of its CPU are ignored. The
//! plugin cannot see which task is running. But `__switch_to_asm` saves the registers of a task on the task's
//! stack, and saves the stack pointer in the `task_struct`. When it switches back, it reads these values from
//! the same addresses. So the plugin records the addresses to which the switch writes. When a later switch
//! reads from one of these addresses, the task is running again, at the same interrupt depth as when it was
//! switched out.
//!
//! Deferred work is recorded separately, in windows of its own. Such a window opens when the CPU enters the
//! kernel function that does deferred work, and closes when this function returns. It may open during an
//! interrupt that arrives while a test's window is open.

use std::cell::UnsafeCell;
use std::ffi::c_uint;

use knee_marks::EntryKind;

use crate::block::BlockStart;
use crate::calls::INSTRUCTION_BYTES;
use crate::lines::FirstFew;
use crate::pages::{PAGE_BYTES, Pages};
use crate::place::Place;
use crate::qemu::AccessInfo;
use crate::side::Side;

/// The maximum number of virtual CPUs. QEMU's x86 machines have at most 255 without interrupt
/// remapping.
pub(crate) const MAX_VCPUS: usize = 256;
/// The size of the range of addresses that counts as `__switch_to_asm`, in bytes. The function is shorter
/// than the range, but the code in the rest of the range does not switch tasks.
const SWITCH_BYTES: u64 = 256;
/// The maximum number of addresses that a switch writes: it saves six registers, the flags in older
/// kernels, and the stack pointer, and sets the stack canary.
const MAX_SAVED: usize = 16;

/// Whether the task that has opened the window is running.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Presence {
    Here,
    /// The code at this address is switching the task out.
    Leaves(u64),
    Away,
    /// The code at this address is switching another task out, and may switch to this task.
    MayArrive(u64),
}

/// A virtual CPU.
pub(crate) struct Vcpu {
    /// The number of the side whose window is open, and this side.
    side: Option<(usize, Box<Side>)>,
    /// How many interrupts, and exceptions raised inside interrupts, have not returned yet.
    depth: u32,
    /// The address after an `iretq` that is being executed inside an interrupt.
    returning: Option<u64>,
    presence: Presence,
    /// Whether the current accesses belong to the side: its task is running, and no interrupt is
    /// being handled.
    counts: bool,
    /// The number of accesses that the last instruction of the block has yet to make.
    last_accesses: usize,
    /// The address of the repeated string instruction that is in progress.
    repeated: Option<u64>,
    /// The addresses at which the task's registers were saved when it was switched out.
    saved: FirstFew<MAX_SAVED>,
    pages: Pages,
    /// The window of the deferred work that this CPU is doing. While this window is open, nothing is recorded
    /// in a test's window.
    deferred: Option<Box<Vcpu>>,
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
            deferred: None,
        }
    }

    pub(crate) fn is_open(&self) -> bool {
        self.side.is_some()
    }

    /// Opens the window. From now on, accesses are recorded in `side`.
    pub(crate) fn open(&mut self, number: usize, mut side: Box<Side>) {
        side.calls.open();
        *self = Vcpu { side: Some((number, side)), counts: true, ..Vcpu::new() };
    }

    /// Opens a window for deferred work. The next block begins a function, and the window ends when that
    /// function returns. If such a window is already open, only returns `side`.
    pub(crate) fn open_deferred(&mut self, side: Box<Side>) -> Option<Box<Side>> {
        if self.deferred.is_some() {
            return Some(side);
        }
        let mut window = Box::new(Vcpu::new());
        window.open(0, side);
        self.deferred = Some(window);
        None
    }

    /// Closes the window.
    pub(crate) fn close(&mut self) -> Option<(usize, Box<Side>)> {
        self.counts = false;
        self.side.take()
    }

    /// Closes the window of deferred work.
    pub(crate) fn close_deferred(&mut self) -> Option<Box<Side>> {
        self.deferred.take()?.close().map(|(_, side)| side)
    }

    /// Handles the start of a block. If deferred work ended with the previous block, returns the side that
    /// recorded the work.
    #[inline]
    pub(crate) fn block(&mut self, start: impl FnOnce() -> BlockStart) -> Option<Box<Side>> {
        if self.deferred.is_some() {
            let start = start();
            let done = self.block_of_deferred(&start);
            if done.is_some() {
                self.add_block(&start);
            }
            return done;
        }
        if self.side.is_some() {
            self.add_block(&start());
        }
        None
    }

    /// Handles the start of a block while a window for deferred work is open. If an interrupt arrives between
    /// the function's return and the next block, the window ends only when the caller returns.
    fn block_of_deferred(&mut self, start: &BlockStart) -> Option<Box<Side>> {
        let window = self.deferred.as_mut()?;
        let is_next = window.counts && window.returning.is_none() && start.enters.is_none();
        if is_next && window.side.as_ref()?.1.calls.have_returned() {
            return self.close_deferred();
        }
        window.add_block(start);
        None
    }

    fn add_block(&mut self, start: &BlockStart) {
        if self.side.is_none() {
            return;
        }
        self.pages.block(start.address);
        if !self.counts || self.returning.is_some() || start.enters.is_some() {
            self.follow(start);
            self.counts = self.depth == 0 && self.presence == Presence::Here;
        }
        if self.counts
            && let Some((_, side)) = self.side.as_mut()
        {
            // If this block only repeats a string instruction, an earlier block has already counted that
            // instruction, perhaps before a fault.
            let after = self.repeated.map(|repeated| start.address.wrapping_sub(repeated));
            let again = after == Some(0);
            if after.is_some_and(|distance| (1..=INSTRUCTION_BYTES).contains(&distance)) {
                self.repeated = None;
            }
            side.count.instructions += start.length as u64 - u64::from(again);
            side.calls.block(start);
        }
    }

    /// Updates the depth of interrupts and the task's [`Presence`].
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
            Some(EntryKind::Fault | EntryKind::Deferred) | None => {}
        }
    }

    /// Handles a call instruction.
    pub(crate) fn call(&mut self, pc: u64) {
        if let Some(window) = &mut self.deferred {
            return window.call(pc);
        }
        if self.counts
            && let Some((_, side)) = self.side.as_mut()
        {
            side.calls.call(pc);
        }
    }

    /// Handles a repeated string instruction.
    pub(crate) fn repeat(&mut self, pc: u64) {
        if let Some(window) = &mut self.deferred {
            return window.repeat(pc);
        }
        if self.counts {
            self.repeated = Some(pc);
        }
    }

    /// Handles an `iretq`; `behind` is the address after this instruction.
    pub(crate) fn returns(&mut self, behind: u64) {
        if let Some(window) = &mut self.deferred {
            return window.returns(behind);
        }
        if self.depth > 0 && self.presence == Presence::Here {
            self.returning = Some(behind);
        }
    }

    /// Handles the last instruction of a block. `accesses` is the number of accesses that this instruction
    /// makes.
    pub(crate) fn last_of_block(&mut self, accesses: usize) {
        self.last_accesses = accesses;
    }

    /// Returns whether an access that QEMU reports for the last instruction of a block is the instruction's
    /// own; see [`own_accesses`](crate::instruction::own_accesses).
    pub(crate) fn is_access_of_last(&mut self) -> bool {
        let is_own = self.last_accesses > 0;
        self.last_accesses = self.last_accesses.saturating_sub(1);
        is_own
    }

    /// Handles an access to memory. The access is logged if `place` is given.
    #[inline]
    pub(crate) fn access(
        &mut self,
        info: AccessInfo,
        address: u64,
        pc: u64,
        place: Option<&Place>,
    ) {
        if let Some(window) = &mut self.deferred {
            return window.access(info, address, pc, place);
        }
        if !self.counts {
            return self.recognise(info, address);
        }
        let Some((_, side)) = self.side.as_mut() else { return };
        side.count.accesses += 1;
        let bytes = info.bytes();
        let here = PAGE_BYTES - address % PAGE_BYTES;
        if bytes <= here {
            side.access(&mut self.pages, info, address, bytes, pc, place);
        } else {
            // The two pages of the access need not be adjacent in physical memory.
            side.access(&mut self.pages, info, address, here, pc, place);
            side.access(&mut self.pages, info, address + here, bytes - here, pc, place);
        }
    }

    /// Handles an access that is not recorded, but may save or restore the registers of the task.
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

/// The slot of a virtual CPU. Different threads write to different slots, so each slot has cache lines of its
/// own.
#[repr(align(128))]
struct Slot(UnsafeCell<Vcpu>);

// SAFETY: only the function `vcpu` accesses a slot, and `vcpu` is called only on the thread of the slot's
// CPU.
unsafe impl Sync for Slot {}

static VCPUS: [Slot; MAX_VCPUS] = [const { Slot(UnsafeCell::new(Vcpu::new())) }; MAX_VCPUS];

/// Calls `with` with the virtual CPU of this number. Call this function only from QEMU's callbacks,
/// with the number of the executing CPU, and never from within `with`.
#[inline]
pub(crate) fn vcpu(number: c_uint, with: impl FnOnce(&mut Vcpu)) {
    let Some(slot) = VCPUS.get(number as usize) else { return };
    // SAFETY: QEMU executes a virtual CPU on one thread at a time and makes the callbacks of its
    // instructions on that thread, one after the other. (If all CPUs share a thread, that thread
    // executes the CPUs one after the other.) No callback runs during `with`, since `with` executes
    // no instructions of the guest. So this is the only reference.
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

    /// Runs blocks; `Err` stands for an `iretq` and contains the address after the `iretq`. Returns the side
    /// and the depth of interrupts at the end.
    fn run(blocks: &[Result<(u64, Option<EntryKind>), u64>]) -> (Box<Side>, u32) {
        let mut vcpu = Vcpu::new();
        vcpu.open(0, Box::new(Side::new()));
        for step in blocks {
            match *step {
                Ok((address, enters)) => drop(vcpu.block(|| block(address, enters))),
                Err(behind) => vcpu.returns(behind),
            }
        }
        let depth = vcpu.depth;
        (vcpu.close().unwrap().1, depth)
    }

    #[test]
    fn an_interrupt_is_ignored_and_the_code_after_it_counts() {
        use EntryKind::Interrupt;
        let entry = Ok((KERNEL + 0x100, Some(Interrupt)));
        let end = Ok((KERNEL + 0x200, None));
        let (side, depth) =
            run(&[Ok((KERNEL, None)), entry, end, Err(KERNEL + 0x202), Ok((KERNEL + 8, None))]);
        assert_eq!((side.count.instructions, side.count.interrupts, depth), (2, 1, 0));
    }

    #[test]
    fn a_fault_within_an_interrupt_does_not_end_the_interrupt() {
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
    fn a_fault_outside_of_interrupts_belongs_to_the_operation() {
        let entry = Ok((KERNEL + 0x300, Some(EntryKind::Fault)));
        let (side, depth) = run(&[entry, Err(KERNEL + 0x202), Ok((0x40_0000, None))]);
        assert_eq!((side.count.instructions, side.count.interrupts, depth), (2, 0, 0));
    }

    #[test]
    fn deferred_work_in_an_interrupt_is_recorded_apart_and_ends_when_its_function_returns() {
        let mut vcpu = Vcpu::new();
        vcpu.open(0, Box::new(Side::new()));
        let run = |vcpu: &mut Vcpu, offset: u64, length, enters, ends| {
            let start = BlockStart { length, enters, ends, address: KERNEL + offset };
            vcpu.block(|| start).map(|side| side.count.instructions)
        };
        let (entry, plain) = (Some(EntryKind::Interrupt), None);
        assert_eq!(run(&mut vcpu, 0, 1, plain, Ends::Otherwise), None);
        assert_eq!(run(&mut vcpu, 0x100, 2, entry, Ends::Call), None);
        assert!(vcpu.open_deferred(Box::new(Side::new())).is_none());
        // The function calls another one, and is interrupted after that one has returned.
        assert_eq!(run(&mut vcpu, 0x300, 10, plain, Ends::Call), None);
        vcpu.call(KERNEL + 0x308);
        assert_eq!(run(&mut vcpu, 0x400, 20, plain, Ends::Return), None);
        assert_eq!(run(&mut vcpu, 0x100, 500, entry, Ends::Leaves), None);
        vcpu.returns(KERNEL + 0x110);
        assert_eq!(run(&mut vcpu, 0x30d, 40, plain, Ends::Return), None);
        assert_eq!(run(&mut vcpu, 0x105, 7, plain, Ends::Leaves), Some(70));
        vcpu.returns(KERNEL + 0x110);
        assert_eq!(run(&mut vcpu, 0x8, 4, plain, Ends::Leaves), None);
        let side = vcpu.close().unwrap().1;
        assert_eq!((side.count.instructions, side.count.interrupts), (1 + 4, 1));
    }

    #[test]
    fn a_repeated_instruction_counts_once_even_if_many_blocks_begin_with_it() {
        let mut vcpu = Vcpu::new();
        vcpu.open(0, Box::new(Side::new()));
        let string = KERNEL + 0x10;
        let mut run = |address, length, repeats: bool| {
            vcpu.block(|| BlockStart { length, ..block(address, None) });
            if repeats {
                vcpu.repeat(string);
            }
        };
        // The first block has three instructions and ends with the string instruction. Two blocks repeat the
        // string instruction, and the last block contains the two instructions after it.
        run(KERNEL, 3, true);
        run(string, 1, true);
        run(string, 1, true);
        run(string + 3, 2, false);
        // A jump to the repeated instruction, and a fault between its repetitions.
        run(string, 1, true);
        run(KERNEL + 0x800, 4, false);
        run(string, 1, true);
        run(string + 3, 2, false);
        assert_eq!(vcpu.close().unwrap().1.count.instructions, 3 + 2 + 1 + 4 + 2);
    }

    #[test]
    fn serializing_the_cpu_does_not_end_an_interrupt() {
        let (_, depth) = run(&[
            Ok((KERNEL + 0x100, Some(EntryKind::Interrupt))),
            Err(KERNEL + 0x502),
            Ok((KERNEL + 0x502, None)),
        ]);
        assert_eq!(depth, 1);
    }

    #[test]
    fn consecutive_interrupts_do_not_nest() {
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
        // Another task runs, and is interrupted.
        assert_eq!(run(KERNEL + 0x800, None), Presence::Away);
        assert_eq!(run(KERNEL + 0x100, Some(EntryKind::Interrupt)), Presence::Away);
        assert_eq!(run(switch, Some(EntryKind::Switch)), Presence::MayArrive(switch));
        assert_eq!(run(KERNEL + 0x900, None), Presence::Away);
        let (_, side) = vcpu.close().unwrap();
        let count = side.count;
        assert_eq!((count.switches, count.interrupts, count.instructions), (1, 0, 1));
    }

    /// Returns the callers of the code that runs at the end of these blocks.
    fn callers(blocks: &[(u64, Option<EntryKind>, Ends)]) -> Vec<u64> {
        let mut vcpu = Vcpu::new();
        vcpu.open(0, Box::new(Side::new()));
        for &(address, enters, ends) in blocks {
            // Under QEMU, a task is back when a switch reads the registers that were saved for the task. This
            // test makes no accesses, so it sets the state itself.
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
    fn an_interrupt_between_a_call_and_its_callee_is_not_a_caller() {
        let (call, callee) = (KERNEL + 0x1000, KERNEL + 0x2000);
        let blocks = [
            (call, None, Ends::Call),
            (KERNEL + 0x100, Some(EntryKind::Interrupt), Ends::Call),
            (KERNEL + 0x300, None, Ends::Return),
            (KERNEL + 0x106, None, Ends::Leaves),
            (callee, None, Ends::Otherwise),
        ];
        assert_eq!(callers(&blocks), [call + 1]);
        // An interrupt right before the callee returns is not a caller either.
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
