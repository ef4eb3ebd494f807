//! A load and a store for addresses that may be unmapped. If the access raises a signal, the function returns
//! the signal's number, and the program continues.
//!
//! The handler compares the address of the faulting instruction with the addresses of the load and
//! the store below. If the instruction is one of these two, the program continues after it, with the signal
//! number in a register. Otherwise the signal kills the program.

use knee_plan::Returned;
use std::arch::global_asm;

#[cfg(target_arch = "x86_64")]
global_asm!(
    // rdi: the address; rax: the byte at this address; rdx: the signal, or 0.
    ".globl knee_agent_load",
    "knee_agent_load:",
    "xor eax, eax",
    "xor edx, edx",
    ".globl knee_agent_load_at",
    "knee_agent_load_at:",
    "mov al, [rdi]",
    ".globl knee_agent_done",
    "knee_agent_done:",
    "ret",
    // rdi: the address; sil: the byte to store; rdx: the signal, or 0.
    ".globl knee_agent_store",
    "knee_agent_store:",
    "xor eax, eax",
    "xor edx, edx",
    ".globl knee_agent_store_at",
    "knee_agent_store_at:",
    "mov [rdi], sil",
    "ret",
);

/// The result of the load or the store. In the C calling convention, a function returns this struct in rax
/// and rdx.
#[repr(C)]
struct Loaded {
    value: u64,
    signal: u64,
}

unsafe extern "C" {
    fn knee_agent_load(at: usize) -> Loaded;
    fn knee_agent_store(at: usize, value: u8) -> Loaded;
    static knee_agent_load_at: u8;
    static knee_agent_store_at: u8;
    static knee_agent_done: u8;
}

extern "C" fn on_fault(signal: libc::c_int, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the kernel passes the context of the interrupted thread, which also runs the handler,
    // and allows the handler to change the context.
    let registers = unsafe { &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs };
    let at = registers[libc::REG_RIP as usize] as usize;
    let ours = [&raw const knee_agent_load_at, &raw const knee_agent_store_at];
    if ours.iter().any(|ours| *ours as usize == at) {
        registers[libc::REG_RIP as usize] = (&raw const knee_agent_done) as usize as i64;
        registers[libc::REG_RDX as usize] = signal.into();
    } else {
        // SAFETY: `signal` is async-signal-safe. The instruction is then executed again, and its
        // signal ends the process.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
}

/// Installs the handler of SIGSEGV and SIGBUS that [`load`] and [`store`] need, and ignores
/// SIGPIPE.
pub(crate) fn install() {
    // SAFETY: a zeroed action is valid. The handler changes only registers, or calls `signal`.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = on_fault as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO;
        for signal in [libc::SIGSEGV, libc::SIGBUS] {
            libc::sigaction(signal, &action, std::ptr::null_mut());
        }
        libc::signal(libc::SIGPIPE, libc::SIG_IGN);
    }
}

/// Loads the byte at an address of a test.
pub(crate) fn load(at: usize) -> Returned {
    // SAFETY: the address is in the range that is kept for tests, which contains no memory of the
    // program. The function returns even if the page is not mapped.
    let loaded = unsafe { knee_agent_load(at) };
    match loaded.signal {
        0 => Returned::Page(loaded.value as u8),
        signal => Returned::Signal(signal as i32),
    }
}

/// Stores a byte at an address of a test.
pub(crate) fn store(at: usize, value: u8) -> Returned {
    // SAFETY: as in `load`.
    let stored = unsafe { knee_agent_store(at, value) };
    match stored.signal {
        0 => Returned::Done,
        signal => Returned::Signal(signal as i32),
    }
}
