//! System calls, for the programs in this folder.

use core::arch::{asm, global_asm};
use core::panic::PanicInfo;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

// The numbers of system calls, which must match those in `src/system_call.rs`.
const EXIT: u64 = 0;
const MMAP: u64 = 1;
const MUNMAP: u64 = 2;
const MPROTECT: u64 = 3;
const MREMAP: u64 = 4;
const MADVISE: u64 = 5;
const FORK: u64 = 6;
const WAIT: u64 = 7;
const THREAD: u64 = 8;
const CATCH: u64 = 9;
const MMAP_REGISTERS: u64 = 10;
const TURN: u64 = 11;
const TRIAL_STORE: u64 = 12;
const TIMER_INTERRUPTS: u64 = 13;
const MMAP_FILE: u64 = 14;

pub const PAGE: u64 = 4096;
pub const READ: u64 = 1;
pub const WRITE: u64 = 2;

/// Errors, as on Linux.
pub const ENOMEM: i64 = -12;
pub const EACCES: i64 = -13;
pub const EFAULT: i64 = -14;
pub const EEXIST: i64 = -17;
pub const EINVAL: i64 = -22;

/// The number of the signal for an access that no mapping allows, as on Linux.
const SIGSEGV: u64 = 11;

#[cfg(target_arch = "x86_64")]
fn call(number: u64, arguments: [u64; 5]) -> i64 {
    let [first, second, third, fourth, fifth] = arguments;
    let result;
    // SAFETY: the kernel changes no memory that the program has borrowed.
    unsafe {
        asm!(
            "syscall",
            inout("rax") number => result,
            in("rdi") first,
            in("rsi") second,
            in("rdx") third,
            in("r10") fourth,
            in("r8") fifth,
            out("rcx") _,
            out("r11") _,
        );
    }
    result
}

#[cfg(target_arch = "aarch64")]
fn call(number: u64, arguments: [u64; 5]) -> i64 {
    let [first, second, third, fourth, fifth] = arguments;
    let result;
    // SAFETY: the kernel changes no memory that the program has borrowed.
    unsafe {
        asm!(
            "svc #0",
            in("x8") number,
            inout("x0") first => result,
            in("x1") second,
            in("x2") third,
            in("x3") fourth,
            in("x4") fifth,
        );
    }
    result
}

#[cfg(target_arch = "riscv64")]
fn call(number: u64, arguments: [u64; 5]) -> i64 {
    let [first, second, third, fourth, fifth] = arguments;
    let result;
    // SAFETY: the kernel changes no memory that the program has borrowed.
    unsafe {
        asm!(
            "ecall",
            in("a7") number,
            inout("a0") first => result,
            in("a1") second,
            in("a2") third,
            in("a3") fourth,
            in("a4") fifth,
        );
    }
    result
}

#[cfg(target_arch = "x86_64")]
global_asm!(
    ".globl start, thread_start, try_load, try_store",
    "start: andq $-16, %rsp; call run",
    "thread_start: call thread_run",
    // Loads and stores that may fault: `catch` makes the kernel continue at `caught`, with the number of the
    // signal as the result.
    "try_load: movq (%rdi), %rax; movq %rax, (%rsi); xorl %eax, %eax; ret",
    "try_store: movq %rsi, (%rdi); xorl %eax, %eax; ret",
    ".globl caught",
    "caught: ret",
    options(att_syntax)
);
#[cfg(target_arch = "aarch64")]
global_asm!(
    ".globl start, thread_start, try_load, try_store, caught",
    "start: bl run",
    "thread_start: bl thread_run",
    "try_load: ldr x2, [x0]; str x2, [x1]; mov x0, #0; ret",
    "try_store: str x1, [x0]; mov x0, #0; ret",
    "caught: ret",
);
#[cfg(target_arch = "riscv64")]
global_asm!(
    ".globl start, thread_start, try_load, try_store, caught",
    "start: call run",
    "thread_start: call thread_run",
    "try_load: ld a2, (a0); sd a2, (a1); li a0, 0; ret",
    "try_store: sd a1, (a0); li a0, 0; ret",
    "caught: ret",
);

unsafe extern "C" {
    fn try_load(address: u64, to: *mut u64) -> u64;
    fn try_store(address: u64, value: u64) -> u64;
    fn caught();
    fn thread_start();
}

/// Loads a word. Returns the number of the signal if the access faults.
pub fn load_or_signal(address: u64) -> Result<u64, u64> {
    let mut word = 0;
    // SAFETY: if an access faults, the kernel makes the function return.
    match unsafe { try_load(address, &mut word) } {
        0 => Ok(word),
        signal => Err(signal),
    }
}

/// Loads a word. Returns `None` if the access faults.
pub fn load(address: u64) -> Option<u64> {
    load_or_signal(address).ok()
}

/// Stores a word. Returns the number of the signal if the access faults.
pub fn store_or_signal(address: u64, value: u64) -> Result<(), u64> {
    // SAFETY: if an access faults, the kernel makes the function return. If a store does not fault, it
    // changes only memory that the program has mapped for this purpose.
    match unsafe { try_store(address, value) } {
        0 => Ok(()),
        signal => Err(signal),
    }
}

/// Stores a word. Returns whether the access was allowed.
pub fn store(address: u64, value: u64) -> bool {
    store_or_signal(address, value).is_ok()
}

/// Calls this address, and returns whether the call faulted. There must be data at the address, not code.
pub fn cannot_execute(address: u64) -> bool {
    // SAFETY: the call faults, and the kernel continues at `caught`, which returns to this function.
    let function: extern "C" fn() -> u64 = unsafe { core::mem::transmute(address) };
    function() == SIGSEGV
}

/// Maps memory anywhere.
pub fn mmap(bytes: u64, protection: u64) -> i64 {
    call(MMAP, [0, bytes, protection, 0, 0])
}

/// Maps memory at this address. Fails if a page of the range is already mapped.
pub fn mmap_at(address: u64, bytes: u64, protection: u64) -> i64 {
    call(MMAP, [address, bytes, protection, 1, 0])
}

/// Maps memory at this address, and replaces existing mappings.
pub fn mmap_fixed(address: u64, bytes: u64, protection: u64) -> i64 {
    call(MMAP, [address, bytes, protection, 2, 0])
}

/// Maps a page of an open file: at this address, in place of an existing mapping, or anywhere if `address` is
/// 0.
pub fn mmap_file(address: u64, protection: u64, descriptor: u64, page: u64) -> i64 {
    call(MMAP_FILE, [address, protection, descriptor, page, 0])
}

/// Maps the registers of a device at this address.
pub fn mmap_registers(address: u64, protection: u64) -> i64 {
    call(MMAP_REGISTERS, [address, protection, 0, 0, 0])
}

pub fn munmap(address: u64, bytes: u64) -> i64 {
    call(MUNMAP, [address, bytes, 0, 0, 0])
}

pub fn mprotect(address: u64, bytes: u64, protection: u64) -> i64 {
    call(MPROTECT, [address, bytes, protection, 0, 0])
}

/// Changes the size of a mapping, and may move the mapping.
pub fn mremap(address: u64, bytes: u64, new_bytes: u64) -> i64 {
    call(MREMAP, [address, bytes, new_bytes, 0, 0])
}

/// `MADV_DONTNEED`.
pub fn discard(address: u64, bytes: u64) -> i64 {
    call(MADVISE, [address, bytes, 4, 0, 0])
}

/// `MADV_HUGEPAGE`, for the whole address space.
pub fn allow_huge_pages(address: u64, bytes: u64) -> i64 {
    call(MADVISE, [address, bytes, 14, 0, 0])
}

/// `MADV_POPULATE_READ`.
pub fn populate(address: u64, bytes: u64) -> i64 {
    call(MADVISE, [address, bytes, 22, 0, 0])
}

/// Forks the process. Returns the number of the child, or 0 in the child.
pub fn fork() -> i64 {
    call(FORK, [0; 5])
}

/// Waits for a child. Returns its status.
pub fn wait(child: i64) -> i64 {
    call(WAIT, [child as u64, 0, 0, 0, 0])
}

/// Ends the task's turn with this status. Returns the command for the next turn.
pub fn turn(status: u64) -> u64 {
    call(TURN, [status, 0, 0, 0, 0]) as u64
}

/// Makes the kernel store to its memory, for a trial of the plugin. If `side` is 0 or 1, the kernel stores to
/// a byte of that side of the trial; if `side` is 2, the kernel stores to a word that both sides share.
pub fn trial_store(side: u64) -> i64 {
    call(TRIAL_STORE, [side, 0, 0, 0, 0])
}

/// The number of timer interrupts on this CPU.
pub fn timer_interrupts() -> i64 {
    call(TIMER_INTERRUPTS, [0; 5])
}

pub fn exit(status: u64) -> ! {
    call(EXIT, [status, 0, 0, 0, 0]);
    loop {}
}

/// The number of threads that have ended.
static ENDED: AtomicU64 = AtomicU64::new(0);

/// Starts `count` threads with the numbers `0..count`, each of which calls `work` with its number. Returns
/// when all these calls have returned.
pub fn on_threads(count: u64, work: fn(u64)) {
    const STACK: u64 = 16 * PAGE;
    ENDED.store(0, Relaxed);
    for number in 0..count {
        let stack = mmap(STACK, READ | WRITE);
        check(stack > 0, 100);
        let top = stack as u64 + STACK - 64;
        let start = thread_start as *const () as u64;
        // SAFETY: the stack is new, and has room for both words.
        unsafe {
            (top as *mut u64).write(work as *const () as u64);
            (top as *mut u64).add(1).write(number);
        }
        check(call(THREAD, [start, top - 64, top, 0, 0]) == 0, 101);
    }
    while ENDED.load(Relaxed) < count {
        core::hint::spin_loop();
    }
}

#[unsafe(no_mangle)]
extern "C" fn thread_run(what: *const (fn(u64), u64)) -> ! {
    // SAFETY: `on_threads` has written the function and the number.
    let (work, number) = unsafe { what.read() };
    work(number);
    ENDED.fetch_add(1, Relaxed);
    exit(0)
}

/// Ends the program with this status if a condition is false.
pub fn check(is_true: bool, status: u64) {
    if !is_true {
        exit(status);
    }
}

#[unsafe(no_mangle)]
extern "C" fn run() -> ! {
    call(CATCH, [caught as *const () as u64, 0, 0, 0, 0]);
    crate::main();
    exit(0)
}

#[panic_handler]
fn panic(_: &PanicInfo) -> ! {
    exit(255)
}
