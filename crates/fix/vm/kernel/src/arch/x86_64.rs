//! x86-64: PVH boot, local APIC, `syscall`, shootdown by IPI.

use core::arch::{asm, global_asm};
use core::ptr;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use knee_vm::{Flush, Frame, PAGE, Protection, VirtAddr};

use super::{Broadcast, Interrupt, MOST_CPUS, STACK_SHIFT, STACKS, Trap};

pub(crate) type Format = knee_vm::X86_64;

/// The first frame of memory.
pub(crate) const MEMORY: u64 = 0;

/// A page of device registers: the local APIC.
pub(crate) const REGISTERS: Frame = Frame(APIC >> 12);

/// The virtual address at which the kernel maps physical memory.
const DIRECT: u64 = 0xffff_8000_0000_0000;
const APIC: u64 = 0xfee0_0000;
/// The physical address at which each CPU but the first starts, in real mode.
const TRAMPOLINE: u64 = 0x8000;

const VECTOR_IPI: u8 = 0x40;
const VECTOR_TIMER: u8 = 0x41;
const VECTOR_SPURIOUS: u8 = 0xff;
const PAGE_FAULT: u64 = 14;
const SYSTEM_CALL: u64 = 256;

global_asm!(include_str!("x86_64.s"), options(att_syntax),);
global_asm!(
    ".globl REGISTERS_SIZE, STACK_SHIFT, SOURCES",
    ".set REGISTERS_SIZE, {size}",
    ".set STACK_SHIFT, {shift}",
    ".set SOURCES, {sources}",
    ".globl STACKS",
    ".set STACKS, {stacks}",
    size = const size_of::<Registers>(),
    shift = const STACK_SHIFT,
    sources = const knee_plan::SOURCES,
    stacks = sym STACKS,
);

unsafe extern "C" {
    static vectors: [[u8; 16]; 256];
    static trampoline: u8;
    static trampoline_end: u8;
    fn syscall_entry();
    fn enter_user(registers: *mut Registers);
}

/// A program's registers, in the order in which a trap pushes them.
#[repr(C, align(16))]
#[derive(Clone, Default)]
pub(crate) struct Registers {
    rax: u64,
    rbx: u64,
    rcx: u64,
    rdx: u64,
    rsi: u64,
    rdi: u64,
    rbp: u64,
    r8: u64,
    r9: u64,
    r10: u64,
    r11: u64,
    r12: u64,
    r13: u64,
    r14: u64,
    r15: u64,
    vector: u64,
    error: u64,
    rip: u64,
    cs: u64,
    rflags: u64,
    rsp: u64,
    ss: u64,
}

/// A CPU's data for the entry code. The base of GS points to this data.
#[repr(C)]
struct EntryData {
    /// The end of the running program's [`Registers`], into which a trap pushes the registers.
    registers: u64,
    /// The stack pointer of the caller of `enter_user`.
    kernel_stack: u64,
    /// The program's stack pointer, stored here while a system call enters the kernel.
    user_stack: u64,
    task: *mut TaskState,
}

/// A task-state segment: "Software Developer's Manual", volume 3, 8.7.
#[repr(C, packed(4))]
struct TaskState {
    reserved: u32,
    rsp0: u64,
    rest: [u32; 22],
    /// The upper 16 bits are the offset of the I/O bitmap. The offset is beyond the end of the segment, so
    /// programs cannot access any I/O port.
    io_map: u32,
}

/// A CPU's descriptor tables.
struct Segments {
    table: [u64; 9],
    task: TaskState,
    entry: EntryData,
}

const NO_SEGMENTS: Segments = Segments {
    table: [
        0,
        0x00af_9b00_0000_ffff,
        0x00cf_9300_0000_ffff,
        0,
        0x00cf_f300_0000_ffff,
        0x00af_fb00_0000_ffff,
        0x00cf_9b00_0000_ffff,
        0,
        0,
    ],
    task: TaskState {
        reserved: 0,
        rsp0: 0,
        rest: [0; 22],
        io_map: (size_of::<TaskState>() as u32) << 16,
    },
    entry: EntryData { registers: 0, kernel_stack: 0, user_stack: 0, task: ptr::null_mut() },
};
const KERNEL_CODE: u16 = 0x08;
const TASK: u16 = 0x38;

static mut SEGMENTS: [Segments; MOST_CPUS] = [NO_SEGMENTS; MOST_CPUS];
static mut INTERRUPTS: [[u64; 2]; 256] = [[0; 2]; 256];

/// A pointer for `lgdt` and `lidt`.
#[repr(C, packed)]
struct TablePointer {
    limit: u16,
    base: u64,
}

fn table_pointer<T>(table: *const T) -> TablePointer {
    TablePointer { limit: size_of::<T>() as u16 - 1, base: table.addr() as u64 }
}

const APIC_END: u64 = 0xb0;
const APIC_SPURIOUS: u64 = 0xf0;
const APIC_COMMAND: u64 = 0x300;
const APIC_TIMER: u64 = 0x320;
const APIC_TIMER_START: u64 = 0x380;
const APIC_TIMER_LEFT: u64 = 0x390;
const APIC_TIMER_DIVIDE: u64 = 0x3e0;
/// All CPUs except the sender.
const TO_OTHERS: u32 = 0b11 << 18;
/// Timer counts per millisecond: QEMU's timer runs at 1 GHz, divided by 16.
const MILLISECOND: u64 = 1_000_000 / 16;

fn write_apic(register: u64, value: u32) {
    // SAFETY: the direct mapping contains the registers of the local APIC, in which Rust stores no data.
    unsafe { ((DIRECT + APIC + register) as *mut u32).write_volatile(value) };
}

fn read_apic(register: u64) -> u32 {
    // SAFETY: as above.
    unsafe { ((DIRECT + APIC + register) as *const u32).read_volatile() }
}

fn out_byte(port: u16, value: u8) {
    // SAFETY: the ports in this file belong to devices that write no memory.
    unsafe { asm!("out dx, al", in("dx") port, in("al") value) };
}

fn write_msr(register: u32, value: u64) {
    let (low, high) = (value as u32, (value >> 32) as u32);
    // SAFETY: this file writes only the values that the entry code requires, once on each CPU.
    unsafe { asm!("wrmsr", in("ecx") register, in("eax") low, in("edx") high) };
}

/// Prepares the calling CPU for traps and interrupts.
pub(crate) fn init_cpu(number: usize) {
    const CODE: u64 = (KERNEL_CODE as u64) << 16;
    const PRESENT_INTERRUPT_GATE: u64 = 0x8e00 << 32;
    if number == 0 {
        // Mask the PC's legacy interrupt controllers: the firmware has mapped their interrupts to the vectors
        // of exceptions.
        out_byte(0x21, 0xff);
        out_byte(0xa1, 0xff);
        for vector in 0..256 {
            // SAFETY: no other CPU has started yet.
            unsafe {
                let at = vectors[vector].as_ptr().addr() as u64;
                let low = at & 0xffff | CODE | PRESENT_INTERRUPT_GATE | (at & 0xffff_0000) << 32;
                INTERRUPTS[vector] = [low, at >> 32];
            }
        }
    }
    // SAFETY: each CPU uses its own segments, and the pointers stay valid.
    unsafe {
        let segments = &raw mut SEGMENTS[number];
        let task = &raw mut (*segments).task;
        (*segments).entry.task = task;
        let (at, limit) = (task.addr() as u64, size_of::<TaskState>() as u64 - 1);
        (*segments).table[TASK as usize / 8] =
            limit | (at & 0xff_ffff) << 16 | 0x89 << 40 | (at >> 24 & 0xff) << 56;
        (*segments).table[TASK as usize / 8 + 1] = at >> 32;
        let table = table_pointer(&raw const (*segments).table);
        let interrupts = table_pointer(&raw const INTERRUPTS);
        asm!(
            "lgdt [{table}]",
            "lidt [{interrupts}]",
            "ltr {task:x}",
            table = in(reg) &table,
            interrupts = in(reg) &interrupts,
            task = in(reg) TASK,
        );
        write_msr(0xc000_0101, (&raw const (*segments).entry).addr() as u64); // GS base
        write_msr(0xc000_0102, 0); // GS base of programs
        write_msr(0xc000_0081, (u64::from(KERNEL_CODE)) << 32); // STAR
        write_msr(0xc000_0082, (syscall_entry as *const ()).addr() as u64); // LSTAR
        write_msr(0xc000_0084, 0x0004_0700); // FMASK: AC, DF, IF and TF are clear in the kernel
    }
    write_apic(APIC_SPURIOUS, 0x100 | u32::from(VECTOR_SPURIOUS));
    write_apic(APIC_TIMER_DIVIDE, 0b0011);
    if number == 0 {
        calibrate_clock();
    }
    write_apic(APIC_TIMER, 1 << 17 | u32::from(VECTOR_TIMER));
    write_apic(APIC_TIMER_START, (super::tick() * MILLISECOND) as u32);
}

/// Starts all other CPUs, which call `cpu_main`.
pub(crate) fn start_cpus(count: usize) {
    // SAFETY: nothing else uses memory below 1 MiB.
    unsafe {
        let (start, end) = ((&raw const trampoline).addr(), (&raw const trampoline_end).addr());
        // The code is linked at its physical address.
        let from = (DIRECT as usize + start) as *const u8;
        from.copy_to_nonoverlapping((DIRECT + TRAMPOLINE) as *mut u8, end - start);
    }
    if count == 1 {
        return;
    }
    // "Software Developer's Manual", volume 3, 9.4.4.1. QEMU's CPUs need no delay between these two IPIs.
    write_apic(APIC_COMMAND, TO_OTHERS | 0x4500);
    write_apic(APIC_COMMAND, TO_OTHERS | 0x4600 | (TRAMPOLINE >> 12) as u32);
}

pub(crate) fn put_byte(byte: u8) {
    out_byte(0x3f8, byte);
}

pub(crate) fn power_off() -> ! {
    // The ACPI power-management port of QEMU's q35.
    // SAFETY: the port belongs to a device that writes no memory.
    unsafe { asm!("out dx, ax", in("dx") 0x604_u16, in("ax") 0x2000_u16) };
    loop {
        core::hint::spin_loop();
    }
}

/// Nanoseconds per count of the time-stamp counter, times 2³².
static CLOCK: AtomicU64 = AtomicU64::new(1 << 32);

fn time_stamp() -> u64 {
    // SAFETY: the instruction has no side effects.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// Measures the frequency of the time-stamp counter, which is the host's, by the timer of the local APIC.
fn calibrate_clock() {
    const MILLISECONDS: u64 = 10;
    const MASKED: u32 = 1 << 16;
    write_apic(APIC_TIMER, MASKED);
    write_apic(APIC_TIMER_START, u32::MAX);
    let start = time_stamp();
    while u64::from(u32::MAX - read_apic(APIC_TIMER_LEFT)) < MILLISECONDS * MILLISECOND {
        core::hint::spin_loop();
    }
    let counts = time_stamp() - start;
    CLOCK.store(((MILLISECONDS * 1_000_000) << 32) / counts, Relaxed);
}

/// Reads a monotonic clock, in nanoseconds.
pub(crate) fn clock() -> u64 {
    ((u128::from(time_stamp()) * u128::from(CLOCK.load(Relaxed))) >> 32) as u64
}

#[inline(always)]
pub(super) fn stack_pointer() -> usize {
    let pointer: usize;
    // SAFETY: the instruction reads a register.
    unsafe { asm!("mov {}, rsp", out(reg) pointer, options(nomem, nostack, preserves_flags)) };
    pointer
}

/// Waits for an interrupt.
pub(crate) fn idle() {
    // The CPU takes no interrupt between `sti` and `hlt`, so each interrupt ends the wait.
    // SAFETY: an interrupt in the kernel enters `kernel_trap`, which only acknowledges it.
    unsafe { asm!("sti", "hlt", "cli") };
}

/// Sends an IPI to a CPU.
pub(crate) fn interrupt(cpu: usize) {
    write_apic(APIC_COMMAND + 0x10, (cpu as u32) << 24);
    write_apic(APIC_COMMAND, u32::from(VECTOR_IPI));
}

impl Registers {
    /// The initial state of a program that starts at `pc` with these arguments.
    pub(crate) fn new(pc: u64, stack: u64, arguments: [u64; 2]) -> Registers {
        let [rdi, rsi] = arguments;
        let (cs, ss, rflags) = (0x2b, 0x23, 0x202);
        Registers { rip: pc, rsp: stack, rdi, rsi, cs, ss, rflags, ..Registers::default() }
    }

    /// Runs the program until it traps.
    pub(crate) fn run(&mut self) -> Trap {
        // SAFETY: `self` contains user-mode registers. A trap saves the program's registers in `self` and
        // returns to this function.
        unsafe { enter_user(self) };
        match self.vector {
            SYSTEM_CALL => Trap::SystemCall,
            PAGE_FAULT => {
                let address: u64;
                // SAFETY: the instruction reads a register.
                unsafe { asm!("mov {}, cr2", out(reg) address) };
                let access = match self.error {
                    error if error & 1 << 4 != 0 => Protection::EXECUTE,
                    error if error & 1 << 1 != 0 => Protection::WRITE,
                    _ => Protection::READ,
                };
                Trap::Fault { address: VirtAddr(address), access }
            }
            vector if vector == u64::from(VECTOR_IPI) => {
                write_apic(APIC_END, 0);
                Trap::Interrupt(Interrupt::Ipi)
            }
            vector if vector == u64::from(VECTOR_TIMER) => {
                write_apic(APIC_END, 0);
                Trap::Interrupt(Interrupt::Timer)
            }
            vector if vector == u64::from(VECTOR_SPURIOUS) => Trap::Interrupt(Interrupt::Spurious),
            cause => Trap::Exception { cause, at: self.rip },
        }
    }

    /// The number and the arguments of a system call.
    pub(crate) fn system_call(&self) -> (u64, [u64; 6]) {
        (self.rax, [self.rdi, self.rsi, self.rdx, self.r10, self.r8, self.r9])
    }

    /// Sets the result of a system call.
    pub(crate) fn set_result(&mut self, result: u64) {
        self.rax = result;
    }

    /// Makes the program execute its system call again.
    pub(crate) fn repeat(&mut self) {
        // The length of `syscall`.
        self.rip -= 2;
    }

    /// Makes the program continue at `pc`.
    pub(crate) fn jump(&mut self, pc: u64) {
        self.rip = pc;
    }
}

/// Reports an unexpected trap in the kernel.
#[unsafe(no_mangle)]
extern "C" fn kernel_trap_report(frame: *const [u64; 5]) -> ! {
    // SAFETY: the entry code passes the frame that the trap has pushed.
    let [vector, error, at, ..] = unsafe { *frame };
    let address: u64;
    // SAFETY: the instruction reads a register.
    unsafe { asm!("mov {}, cr2", out(reg) address) };
    panic!("trap {vector} in the kernel at {at:#x}, error {error:#x}, CR2 {address:#x}");
}

/// A load of CR3 flushes the TLB.
pub(crate) const KEEPS_ENTRIES: bool = false;

/// Loads the table of a space.
pub(crate) fn load(root: Frame, _space: u64) {
    // SAFETY: each root table maps the kernel in its upper half.
    unsafe { asm!("mov cr3, {}", in(reg) root.0 * PAGE as u64) };
}

/// Loads the kernel's own root table, which maps no page of a program.
pub(crate) fn load_kernel() {
    unsafe extern "C" {
        static kernel_root: [u64; 512];
    }
    // SAFETY: CR3 takes a physical address, and the boot code's table is linked at its physical address.
    unsafe { asm!("mov cr3, {}", in(reg) (&raw const kernel_root).addr()) };
}

/// Writes the kernel's half of a new root table.
pub(crate) fn begin_root(frame: Frame) {
    unsafe extern "C" {
        static kernel_root: [u64; 512];
    }
    // SAFETY: nothing else uses the new table, and the boot code's table is linked at its physical address.
    unsafe {
        let from = (DIRECT as usize + (&raw const kernel_root).addr()) as *const u64;
        from.add(256).copy_to_nonoverlapping(direct(frame).cast::<u64>().add(256), 256);
    }
}

/// The virtual address at which the kernel maps a frame.
pub(crate) fn direct(frame: Frame) -> *mut u8 {
    (DIRECT + frame.0 * PAGE as u64) as *mut u8
}

/// The maximum number of pages that are flushed one by one.
const ONE_BY_ONE: u64 = 32;

/// Flushes entries of a space from the calling CPU's TLB. `is_loaded` tells whether this CPU has loaded the
/// table of the space.
pub(crate) fn flush(_space: u64, what: Flush, is_loaded: bool) {
    if !is_loaded {
        return;
    }
    match what {
        // `invlpg` also drops cached non-leaf entries.
        Flush::Range(pages) | Flush::Tables(pages) if pages.count() <= ONE_BY_ONE => {
            for page in pages.iter() {
                // SAFETY: the instruction accesses no memory.
                unsafe { asm!("invlpg [{}]", in(reg) page.address().0) };
            }
        }
        _ => flush_all(),
    }
}

/// Flushes the calling CPU's whole TLB. No entry is global, so a load of CR3 flushes all entries.
pub(crate) fn flush_all() {
    // SAFETY: the instructions load the same table again.
    unsafe { asm!("mov {0}, cr3", "mov cr3, {0}", out(reg) _) };
}

/// Whether the CPU supports pages of 1 GiB: "Software Developer's Manual", volume 2, CPUID, leaf 0x80000001.
pub(crate) fn has_gigabyte_pages() -> bool {
    core::arch::x86_64::__cpuid(0x8000_0001).edx >> 26 & 1 == 1
}

/// This kernel uses no instruction that flushes the TLBs of other CPUs.
pub(crate) const BROADCAST: Option<Broadcast> = None;

/// Does nothing: instruction fetches always observe earlier stores.
pub(crate) fn prepare_code(_frame: Frame) {}
