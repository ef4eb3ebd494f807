//! AArch64: QEMU's machine `virt` with PSCI, GICv2 and the virtual timer; shootdown by broadcast TLBI.

use core::arch::{asm, global_asm};

use knee_sync::shim::is_mutant;
use knee_vm::{CpuSet, Flush, Frame, PAGE, Protection, VirtAddr};

use super::{Broadcast, Interrupt, STACK_SHIFT, STACKS, Trap};

pub(crate) type Format = knee_vm::AArch64;

/// The first frame of memory.
pub(crate) const MEMORY: u64 = 0x4000_0000 >> 12;

/// A page of device registers: the first virtio device.
pub(crate) const REGISTERS: Frame = Frame(0x0a00_0000 >> 12);

/// The virtual address at which the kernel maps physical memory.
const HIGH: u64 = 0xffff_0000_0000_0000;
const UART: u64 = HIGH + 0x0900_0000;
const GIC_DISTRIBUTOR: u64 = HIGH + 0x0800_0000;
const GIC_CPU: u64 = HIGH + 0x0801_0000;

/// The interrupt number of the virtual timer.
const TIMER: u32 = 27;
/// The software-generated interrupt by which CPUs wake each other up.
const IPI: u32 = 0;
/// The interrupt number that the GIC returns if no interrupt is pending.
const NONE: u32 = 1023;

global_asm!(
    ".globl HIGH, STACK_SHIFT, STACKS",
    ".set HIGH, {high}",
    ".set STACK_SHIFT, {shift}",
    ".set STACKS, {stacks}",
    high = const HIGH,
    shift = const STACK_SHIFT,
    stacks = sym STACKS,
);
global_asm!(include_str!("aarch64.s"));

unsafe extern "C" {
    static vectors: u8;
    static boot_other: u8;
    static empty_table: u8;
    fn enter_user(registers: *mut Registers);
}

/// A program's registers. The entry code hard-codes the offsets of the fields.
#[repr(C, align(16))]
#[derive(Clone, Default)]
pub(crate) struct Registers {
    x: [u64; 31],
    sp: u64,
    pc: u64,
    spsr: u64,
    is_interrupt: u64,
    esr: u64,
    far: u64,
}

/// Reads a system register.
macro_rules! read {
    ($name:literal) => {{
        let value: u64;
        // SAFETY: this file reads only registers whose reads have no side effects.
        unsafe { asm!(concat!("mrs {}, ", $name), out(reg) value) };
        value
    }};
}

/// Writes a system register.
macro_rules! write {
    ($name:literal, $value:expr) => {{
        let value: u64 = $value;
        // SAFETY: this file writes only values that the entry code and the page tables require.
        unsafe { asm!(concat!("msr ", $name, ", {}"), "isb", in(reg) value) };
    }};
}

fn write_device(address: u64, value: u32) {
    // SAFETY: the direct mapping contains the device's registers, in which Rust stores no data.
    unsafe { (address as *mut u32).write_volatile(value) };
}

fn read_device(address: u64) -> u32 {
    // SAFETY: as for `write_device`.
    unsafe { (address as *const u32).read_volatile() }
}

/// Prepares the calling CPU for traps and interrupts.
pub(crate) fn init_cpu(_number: usize) {
    write!("vbar_el1", (&raw const vectors).addr() as u64);
    load_kernel();
    flush_all();
    write_device(GIC_DISTRIBUTOR, 1);
    write_device(GIC_DISTRIBUTOR + 0x100, 1 << TIMER | 1 << IPI); // enable
    write_device(GIC_CPU + 4, 0xff); // all priorities
    write_device(GIC_CPU, 1);
    start_timer();
}

/// Starts the timer for the next tick.
fn start_timer() {
    write!("cntv_tval_el0", read!("cntfrq_el0") / 1000 * super::tick());
    write!("cntv_ctl_el0", 1);
}

/// Starts all other CPUs, which call `cpu_main`.
pub(crate) fn start_cpus(count: usize) {
    const CPU_ON: u64 = 0xc400_0003;
    for cpu in 1..count as u64 {
        let entry = (&raw const boot_other).addr() as u64 - HIGH;
        let result = power(CPU_ON, cpu, entry, cpu);
        assert!(result == 0, "PSCI cannot start CPU {cpu}: {result:#x}");
    }
}

/// Calls PSCI.
fn power(function: u64, first: u64, second: u64, third: u64) -> u64 {
    let mut result = function;
    // SAFETY: the firmware calls in this file do not write to memory.
    unsafe {
        asm!(
            "hvc #0",
            inout("x0") result,
            inout("x1") first => _,
            inout("x2") second => _,
            inout("x3") third => _,
            clobber_abi("C"),
        );
    }
    result
}

pub(crate) fn put_byte(byte: u8) {
    write_device(UART, u32::from(byte));
}

pub(crate) fn power_off() -> ! {
    const SYSTEM_OFF: u64 = 0x8400_0008;
    power(SYSTEM_OFF, 0, 0, 0);
    loop {
        core::hint::spin_loop();
    }
}

/// Reads a monotonic clock, in nanoseconds.
pub(crate) fn clock() -> u64 {
    let ticks = u128::from(read!("cntvct_el0"));
    (ticks * 1_000_000_000 / u128::from(read!("cntfrq_el0"))) as u64
}

#[inline(always)]
pub(super) fn stack_pointer() -> usize {
    let pointer: usize;
    // SAFETY: the instruction reads a register.
    unsafe { asm!("mov {}, sp", out(reg) pointer, options(nomem, nostack, preserves_flags)) };
    pointer
}

/// Waits for an interrupt, and acknowledges it. Interrupts are masked, so no handler runs.
pub(crate) fn idle() {
    // SAFETY: even a masked interrupt ends the wait.
    unsafe { asm!("wfi") };
    take_interrupt();
}

/// Sends an IPI to a CPU.
pub(crate) fn interrupt(cpu: usize) {
    // SAFETY: a barrier.
    unsafe { asm!("dsb ishst") };
    write_device(GIC_DISTRIBUTOR + 0xf00, 1 << (16 + cpu) | IPI);
}

/// Acknowledges the pending interrupt.
fn take_interrupt() -> Interrupt {
    let taken = read_device(GIC_CPU + 0xc);
    let number = taken & 1023;
    if number != NONE {
        if number == TIMER {
            start_timer();
        }
        write_device(GIC_CPU + 0x10, taken);
    }
    match number {
        TIMER => Interrupt::Timer,
        IPI => Interrupt::Ipi,
        _ => Interrupt::Spurious,
    }
}

impl Registers {
    /// The initial state of a program that starts at `pc` with these arguments.
    pub(crate) fn new(pc: u64, stack: u64, arguments: [u64; 2]) -> Registers {
        let mut registers = Registers { sp: stack, pc, ..Registers::default() };
        registers.x[..2].copy_from_slice(&arguments);
        registers
    }

    /// Runs the program until it traps.
    pub(crate) fn run(&mut self) -> Trap {
        const SYSTEM_CALL: u64 = 0x15;
        const INSTRUCTION_ABORT: u64 = 0x20;
        const DATA_ABORT: u64 = 0x24;
        // SAFETY: `self` contains user-mode registers. A trap saves the program's registers in `self` and
        // returns to this function.
        unsafe { enter_user(self) };
        if self.is_interrupt != 0 {
            return Trap::Interrupt(take_interrupt());
        }
        let address = VirtAddr(self.far);
        match self.esr >> 26 {
            SYSTEM_CALL => Trap::SystemCall,
            INSTRUCTION_ABORT => Trap::Fault { address, access: Protection::EXECUTE },
            DATA_ABORT if self.esr & 1 << 6 != 0 => {
                Trap::Fault { address, access: Protection::WRITE }
            }
            DATA_ABORT => Trap::Fault { address, access: Protection::READ },
            _ => Trap::Exception { cause: self.esr, at: self.pc },
        }
    }

    /// The number and the arguments of a system call.
    pub(crate) fn system_call(&self) -> (u64, [u64; 6]) {
        let [x0, x1, x2, x3, x4, x5, _, _, number, ..] = self.x;
        (number, [x0, x1, x2, x3, x4, x5])
    }

    /// Sets the result of a system call.
    pub(crate) fn set_result(&mut self, result: u64) {
        self.x[0] = result;
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
extern "C" fn kernel_trap_report(esr: u64, elr: u64, far: u64) -> ! {
    panic!("trap in the kernel at {elr:#x}, ESR {esr:#x}, FAR {far:#x}");
}

/// TLB entries are tagged with an address-space identifier, so they stay when the CPU loads another space.
pub(crate) const KEEPS_ENTRIES: bool = true;

/// The identifier of a space in TTBR0 and in TLBI instructions. Identifiers are not reused.
fn identifier(space: u64) -> u64 {
    assert!(space < 1 << 16, "this kernel has 65,535 address-space identifiers");
    if is_mutant!("kernel_one_identifier") { 1 << 48 } else { space << 48 }
}

fn load_table(address: u64) {
    // SAFETY: a barrier. The table walk must see the entries, whichever CPU has stored them.
    unsafe { asm!("dsb ish") };
    write!("ttbr0_el1", address);
}

/// Loads the table of a space.
pub(crate) fn load(root: Frame, space: u64) {
    load_table(identifier(space) | root.0 << 12);
}

/// Loads an empty root table for the lower half, under the identifier 0.
pub(crate) fn load_kernel() {
    load_table((&raw const empty_table).addr() as u64 - HIGH);
}

/// Does nothing: the kernel's half has a root table of its own, in TTBR1.
pub(crate) fn begin_root(_frame: Frame) {}

/// The virtual address at which the kernel maps a frame.
pub(crate) fn direct(frame: Frame) -> *mut u8 {
    (HIGH + frame.0 * PAGE as u64) as *mut u8
}

/// The maximum number of pages that are flushed one by one.
const ONE_BY_ONE: u64 = 32;

/// Executes a TLBI for each page, or one TLBI for the whole space.
macro_rules! invalidate {
    ($space:expr, $what:expr, $leaf:literal, $tables:literal, $all:literal) => {{
        let identifier = identifier($space);
        // SAFETY: a barrier changes no memory. This one makes the table walks of all CPUs see the changed
        // entries before the TLBs drop the old entries.
        unsafe { asm!("dsb ishst") };
        match $what {
            Flush::Range(pages) if pages.count() <= ONE_BY_ONE => {
                for page in pages.iter() {
                    // SAFETY: this only invalidates TLB entries.
                    unsafe { asm!(concat!("tlbi ", $leaf, ", {}"), in(reg) identifier | page.0) };
                }
            }
            Flush::Tables(pages) if pages.count() <= ONE_BY_ONE => {
                for page in pages.iter() {
                    // SAFETY: as above.
                    unsafe { asm!(concat!("tlbi ", $tables, ", {}"), in(reg) identifier | page.0) };
                }
            }
            // SAFETY: as above.
            _ => unsafe { asm!(concat!("tlbi ", $all, ", {}"), in(reg) identifier) },
        }
        // SAFETY: barriers change no memory. These wait until the TLBs have dropped the entries.
        unsafe { asm!("dsb ish", "isb") };
    }};
}

/// Flushes entries of a space from the calling CPU's TLB.
pub(crate) fn flush(space: u64, what: Flush, _is_loaded: bool) {
    invalidate!(space, what, "vale1", "vae1", "aside1");
}

/// Flushes the calling CPU's whole TLB.
pub(crate) fn flush_all() {
    // SAFETY: this only invalidates TLB entries.
    unsafe { asm!("dsb nshst", "tlbi vmalle1", "dsb nsh", "isb") };
}

/// Every CPU of this architecture supports pages of 1 GiB.
pub(crate) fn has_gigabyte_pages() -> bool {
    true
}

pub(crate) const BROADCAST: Option<Broadcast> = Some(shoot_down);

/// Flushes entries of a space from the TLBs of all CPUs.
fn shoot_down(_caller: usize, _on: &CpuSet, space: u64, what: Flush) {
    if is_mutant!("kernel_skips_a_cpu") {
        return flush(space, what, true);
    }
    invalidate!(space, what, "vale1is", "vae1is", "aside1is");
}

/// Makes instruction fetches observe the code that the kernel has stored in a frame.
pub(crate) fn prepare_code(frame: Frame) {
    /// The smallest cache line that the architecture allows. Larger lines are cleaned more than once.
    const LINE: usize = 16;
    for at in (0..PAGE).step_by(LINE) {
        // SAFETY: this only cleans a cache line.
        unsafe { asm!("dc cvau, {0}", in(reg) direct(frame).add(at)) };
    }
    // SAFETY: barriers and the invalidation of instruction caches change no memory.
    unsafe { asm!("dsb ish", "ic ialluis", "dsb ish", "isb") };
}
