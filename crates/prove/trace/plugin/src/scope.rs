//! Settings that select what the plugin traces: kernel code, user code, the kernel's stack accesses, and the
//! order of accesses.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

static USER: AtomicBool = AtomicBool::new(false);
static KERNEL: AtomicBool = AtomicBool::new(true);
static STACK: AtomicBool = AtomicBool::new(true);
static LOG: AtomicBool = AtomicBool::new(false);
static PROGRAM: AtomicBool = AtomicBool::new(false);

/// Selects what the plugin traces.
pub(crate) fn set_counted(user: bool, kernel: bool, stack: bool) {
    USER.store(user, Relaxed);
    KERNEL.store(kernel, Relaxed);
    STACK.store(stack, Relaxed);
}

/// Sets whether accesses are logged in order.
pub(crate) fn set_logged(log: bool) {
    LOG.store(log, Relaxed);
}

/// Sets whether QEMU is in user mode: it runs a program without emulating a machine, so the program's memory
/// has no physical addresses.
pub(crate) fn set_program(program: bool) {
    PROGRAM.store(program, Relaxed);
}

/// Returns whether QEMU is in user mode.
pub(crate) fn is_program() -> bool {
    PROGRAM.load(Relaxed)
}

/// Returns whether user code is traced.
pub(crate) fn counts_user() -> bool {
    USER.load(Relaxed)
}

/// Returns whether kernel code is traced.
pub(crate) fn counts_kernel() -> bool {
    KERNEL.load(Relaxed)
}

/// Returns whether the kernel's stack accesses are traced.
pub(crate) fn counts_stack() -> bool {
    STACK.load(Relaxed)
}

/// Returns whether accesses are logged in order.
pub(crate) fn logs_accesses() -> bool {
    LOG.load(Relaxed)
}

/// Returns whether an address is in the kernel's half of the address space.
pub(crate) fn is_kernel(address: u64) -> bool {
    address >> 63 == 1
}
