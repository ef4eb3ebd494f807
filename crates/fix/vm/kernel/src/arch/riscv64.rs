//! RISC-V: QEMU's machine `virt` with OpenSBI, Sv48; shootdown by SBI's remote fences.

use core::arch::{asm, global_asm};

use knee_sync::shim::is_mutant;
use knee_vm::{CpuSet, Flush, Frame, PAGE, Pages, Protection, VirtAddr};

use super::{Broadcast, Interrupt, STACK_SHIFT, STACKS, Trap};

pub(crate) type Format = knee_vm::Sv48;

/// The first frame of memory.
pub(crate) const MEMORY: u64 = 0x8000_0000 >> 12;

/// A page of device registers: the first virtio device.
pub(crate) const REGISTERS: Frame = Frame(0x1000_1000 >> 12);

/// The virtual address at which the kernel maps physical memory.
const HIGH: u64 = 0xffff_8000_0000_0000;
const UART: u64 = HIGH + 0x1000_0000;

/// QEMU's counter runs at 10 MHz.
const NANOSECONDS: u64 = 100;
/// The number of counts per millisecond.
const MILLISECOND: u64 = 10_000;

global_asm!(
    ".globl STACK_SHIFT, STACKS",
    ".set STACK_SHIFT, {shift}",
    ".set STACKS, {stacks}",
    shift = const STACK_SHIFT,
    stacks = sym STACKS,
);
global_asm!(include_str!("riscv64.s"));

unsafe extern "C" {
    static trap: u8;
    static boot_other: u8;
    static boot_hart: u64;
    static kernel_table: [u64; 512];
    fn enter_user(registers: *mut Registers);
}

/// A program's registers. The entry code hard-codes the offsets of the fields.
#[repr(C, align(16))]
#[derive(Clone, Default)]
pub(crate) struct Registers {
    /// x1 to x31.
    x: [u64; 31],
    pc: u64,
    cause: u64,
    value: u64,
    /// The stack pointer of the caller of `enter_user`.
    kernel_stack: u64,
}

/// The index of a0 in [`Registers::x`].
const A0: usize = 9;
/// The index of a7.
const A7: usize = 16;

// Extensions of the SBI and their functions.
const SET_TIMER: (u64, u64) = (0x5449_4d45, 0);
const SEND_IPI: (u64, u64) = (0x73_5049, 0);
/// A remote `sfence.vma` with an address-space identifier.
const REMOTE_SFENCE: (u64, u64) = (0x5246_4e43, 2);
const HART_START: (u64, u64) = (0x48_534d, 0);
const RESET: (u64, u64) = (0x5352_5354, 0);

/// Calls the SBI. Returns the SBI's error code, or 0.
fn firmware((extension, function): (u64, u64), arguments: [u64; 5]) -> u64 {
    let [first, second, third, fourth, fifth] = arguments;
    let error;
    // SAFETY: the firmware calls in this file do not write to memory.
    unsafe {
        asm!(
            "ecall",
            inout("a0") first => error,
            inout("a1") second => _,
            in("a2") third,
            in("a3") fourth,
            in("a4") fifth,
            in("a6") function,
            in("a7") extension,
        );
    }
    error
}

/// Prepares the calling CPU for traps and interrupts.
pub(crate) fn init_cpu(_number: usize) {
    const SOFTWARE_AND_TIMER: u64 = 1 << 1 | 1 << 5;
    load_kernel();
    flush_all();
    // SAFETY: the entry code expects 0 in sscratch while the kernel runs.
    unsafe {
        asm!("csrw stvec, {}", in(reg) (&raw const trap).addr());
        asm!("csrw sscratch, zero");
        asm!("csrw sie, {}", in(reg) SOFTWARE_AND_TIMER);
    }
    start_timer();
}

fn time() -> u64 {
    let time;
    // SAFETY: the instruction reads a counter.
    unsafe { asm!("csrr {}, time", out(reg) time) };
    time
}

/// Starts the timer for the next tick.
fn start_timer() {
    firmware(SET_TIMER, [time() + super::tick() * MILLISECOND, 0, 0, 0, 0]);
}

/// Returns the hart of a CPU. The boot hart, which may be any hart, is CPU 0. If the boot hart is hart `n`,
/// then hart 0 is CPU `n`. All other harts have their own number as CPU number. (The boot hart must not stop
/// itself to make hart 0 the first CPU: OpenSBI 1.1 may lose a request to start a hart that has just
/// stopped.)
fn hart(cpu: usize) -> u64 {
    // SAFETY: the boot code writes the variable before it calls Rust code.
    let boot = unsafe { boot_hart };
    match cpu as u64 {
        0 => boot,
        cpu if cpu == boot => 0,
        cpu => cpu,
    }
}

/// Starts all other CPUs, which call `cpu_main`.
pub(crate) fn start_cpus(count: usize) {
    for cpu in 1..count {
        let entry = (&raw const boot_other).addr() as u64 - HIGH;
        let error = firmware(HART_START, [hart(cpu), entry, cpu as u64, 0, 0]);
        assert!(error == 0, "the SBI cannot start hart {cpu}: {error:#x}");
    }
}

pub(crate) fn put_byte(byte: u8) {
    // SAFETY: the direct mapping contains the device's registers, in which Rust stores no data.
    unsafe { (UART as *mut u8).write_volatile(byte) };
}

pub(crate) fn power_off() -> ! {
    firmware(RESET, [0, 0, 0, 0, 0]);
    loop {
        core::hint::spin_loop();
    }
}

/// Reads a monotonic clock, in nanoseconds.
pub(crate) fn clock() -> u64 {
    time() * NANOSECONDS
}

#[inline(always)]
pub(super) fn stack_pointer() -> usize {
    let pointer: usize;
    // SAFETY: the instruction reads a register.
    unsafe { asm!("mv {}, sp", out(reg) pointer, options(nomem, nostack, preserves_flags)) };
    pointer
}

/// Waits for an interrupt.
pub(crate) fn idle() {
    // SAFETY: an interrupt ends the wait even while `sstatus` masks interrupts.
    unsafe { asm!("wfi") };
    if pending() & 1 << 5 != 0 {
        start_timer();
    }
    end_ipi();
}

fn pending() -> u64 {
    let pending;
    // SAFETY: the instruction reads a register.
    unsafe { asm!("csrr {}, sip", out(reg) pending) };
    pending
}

/// Clears the pending software interrupt.
fn end_ipi() {
    // SAFETY: the instruction changes only the pending bit of the interrupt.
    unsafe { asm!("csrci sip, 2") };
}

/// Sends an IPI to a CPU.
pub(crate) fn interrupt(cpu: usize) {
    firmware(SEND_IPI, [1 << hart(cpu), 0, 0, 0, 0]);
}

impl Registers {
    /// The initial state of a program that starts at `pc` with these arguments.
    pub(crate) fn new(pc: u64, stack: u64, arguments: [u64; 2]) -> Registers {
        let mut registers = Registers { pc, ..Registers::default() };
        registers.x[1] = stack;
        registers.x[A0..A0 + 2].copy_from_slice(&arguments);
        registers
    }

    /// Runs the program until it traps.
    pub(crate) fn run(&mut self) -> Trap {
        const INTERRUPT: u64 = 1 << 63;
        // Clear SPP, so that `sret` enters user mode. Set SPIE, so that `sret` also enables interrupts.
        // SAFETY: `self` contains user-mode registers. A trap saves the program's registers in `self` and
        // returns to this function.
        unsafe {
            asm!("csrc sstatus, {0}", "csrs sstatus, {1}", in(reg) 1 << 8, in(reg) 1 << 5);
            enter_user(self);
        }
        let address = VirtAddr(self.value);
        match self.cause {
            8 => {
                self.pc += 4;
                Trap::SystemCall
            }
            12 => Trap::Fault { address, access: Protection::EXECUTE },
            13 => Trap::Fault { address, access: Protection::READ },
            15 => Trap::Fault { address, access: Protection::WRITE },
            cause if cause == INTERRUPT | 1 => {
                end_ipi();
                Trap::Interrupt(Interrupt::Ipi)
            }
            cause if cause == INTERRUPT | 5 => {
                start_timer();
                Trap::Interrupt(Interrupt::Timer)
            }
            cause if cause & INTERRUPT != 0 => Trap::Interrupt(Interrupt::Spurious),
            cause => Trap::Exception { cause, at: self.pc },
        }
    }

    /// The number and the arguments of a system call.
    pub(crate) fn system_call(&self) -> (u64, [u64; 6]) {
        let mut arguments = [0; 6];
        arguments.copy_from_slice(&self.x[A0..A0 + 6]);
        (self.x[A7], arguments)
    }

    /// Sets the result of a system call.
    pub(crate) fn set_result(&mut self, result: u64) {
        self.x[A0] = result;
    }

    /// Makes the program execute its system call again.
    pub(crate) fn repeat(&mut self) {
        self.pc -= 4;
    }

    /// Makes the program continue at `pc`.
    pub(crate) fn jump(&mut self, pc: u64) {
        self.pc = pc;
    }
}

/// Reports an unexpected trap in the kernel.
#[unsafe(no_mangle)]
extern "C" fn kernel_trap_report(cause: u64, at: u64, value: u64) -> ! {
    panic!("trap {cause:#x} in the kernel at {at:#x}, value {value:#x}");
}

/// TLB entries are tagged with an address-space identifier, so they stay when the CPU loads another space.
pub(crate) const KEEPS_ENTRIES: bool = true;

/// The identifier of a space in satp and in fences. Identifiers are not reused.
fn identifier(space: u64) -> u64 {
    assert!(space < 1 << 16, "this kernel has 65,535 address-space identifiers");
    if is_mutant!("kernel_one_identifier") { 1 } else { space }
}

fn load_table(frame: u64, identifier: u64) {
    const SV48: u64 = 9 << 60;
    // SAFETY: each root table maps the kernel in its upper half.
    unsafe { asm!("csrw satp, {}", in(reg) SV48 | identifier << 44 | frame) };
}

/// Loads the table of a space.
pub(crate) fn load(root: Frame, space: u64) {
    load_table(root.0, identifier(space));
}

/// Loads the kernel's own root table, which maps no page of a program, under the identifier 0.
pub(crate) fn load_kernel() {
    // In the lower half, the boot code's table maps physical memory, which user mode cannot access.
    load_table(((&raw const kernel_table).addr() as u64 - HIGH) >> 12, 0);
}

/// Writes the kernel's half of a new root table.
pub(crate) fn begin_root(frame: Frame) {
    // SAFETY: nothing else uses the new table, and the boot code's table does not change.
    unsafe {
        let from = (&raw const kernel_table).cast::<u64>();
        from.add(256).copy_to_nonoverlapping(direct(frame).cast::<u64>().add(256), 256);
    }
}

/// The virtual address at which the kernel maps a frame.
pub(crate) fn direct(frame: Frame) -> *mut u8 {
    (HIGH + frame.0 * PAGE as u64) as *mut u8
}

/// The maximum number of pages that are flushed one by one.
const ONE_BY_ONE: u64 = 32;

/// Flushes entries of a space from the calling CPU's TLB.
pub(crate) fn flush(space: u64, what: Flush, _is_loaded: bool) {
    let identifier = identifier(space);
    match what {
        Flush::Range(pages) if pages.count() <= ONE_BY_ONE => {
            for page in pages.iter() {
                let address = page.address().0;
                // SAFETY: this only flushes TLB entries.
                unsafe { asm!("sfence.vma {}, {}", in(reg) address, in(reg) identifier) };
            }
        }
        // With an address, `sfence.vma` covers only leaf entries, so `Flush::Tables` needs an `sfence.vma`
        // without an address.
        // SAFETY: as above.
        _ => unsafe { asm!("sfence.vma zero, {}", in(reg) identifier) },
    }
}

/// Flushes the calling CPU's whole TLB.
pub(crate) fn flush_all() {
    // SAFETY: this only flushes TLB entries.
    unsafe { asm!("sfence.vma") };
}

/// Every CPU of this architecture supports pages of 1 GiB.
pub(crate) fn has_gigabyte_pages() -> bool {
    true
}

pub(crate) const BROADCAST: Option<Broadcast> = Some(shoot_down);

/// Flushes entries of a space from the TLBs of the CPUs in `on`. The firmware interrupts these CPUs, except
/// the caller.
fn shoot_down(caller: usize, on: &CpuSet, space: u64, what: Flush) {
    core::sync::atomic::fence(core::sync::atomic::Ordering::SeqCst);
    let is_skipped = |cpu: usize| cpu == 0 && is_mutant!("kernel_skips_a_cpu");
    let harts = on
        .iter()
        .filter(|&cpu| cpu != caller && !is_skipped(cpu))
        .fold(0, |harts, cpu| harts | 1_u64 << hart(cpu));
    if harts != 0 {
        // A request for the whole address space also flushes non-leaf entries.
        let (start, bytes) = match what {
            Flush::Range(Pages { start, end }) => (start.address().0, (end - start) * PAGE as u64),
            Flush::Tables(_) | Flush::All => (0, u64::MAX),
        };
        let error = firmware(REMOTE_SFENCE, [harts, 0, start, bytes, identifier(space)]);
        assert!(error == 0, "the SBI cannot flush harts {harts:#x}: {error:#x}");
    }
    if on.contains(caller) {
        flush(space, what, true);
    }
}

/// Makes instruction fetches observe the code that the kernel has stored in a frame.
pub(crate) fn prepare_code(_frame: Frame) {
    const REMOTE_FENCE_I: (u64, u64) = (0x5246_4e43, 0);
    // SAFETY: a fence.
    unsafe { asm!("fence.i") };
    firmware(REMOTE_FENCE_I, [0, u64::MAX, 0, 0, 0]);
}
