//! Which code counts: that of the kernel, that of user mode, and what kernel code does to its stack.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

static USER: AtomicBool = AtomicBool::new(false);
static KERNEL: AtomicBool = AtomicBool::new(true);
static STACK: AtomicBool = AtomicBool::new(true);
static PROGRAM: AtomicBool = AtomicBool::new(false);

/// Sets what counts.
pub(crate) fn set_counted(user: bool, kernel: bool, stack: bool) {
    USER.store(user, Relaxed);
    KERNEL.store(kernel, Relaxed);
    STACK.store(stack, Relaxed);
}

/// Sets whether QEMU runs a program without a machine, whose memory has no physical addresses.
pub(crate) fn set_program(program: bool) {
    PROGRAM.store(program, Relaxed);
}

/// Whether QEMU runs a program without a machine.
pub(crate) fn is_program() -> bool {
    PROGRAM.load(Relaxed)
}

/// Whether what happens in user mode counts.
pub(crate) fn counts_user() -> bool {
    USER.load(Relaxed)
}

/// Whether what happens in the kernel counts.
pub(crate) fn counts_kernel() -> bool {
    KERNEL.load(Relaxed)
}

/// Whether what kernel code does to its stack counts.
pub(crate) fn counts_stack() -> bool {
    STACK.load(Relaxed)
}

/// Whether an address is in the kernel's half of the address space.
pub(crate) fn is_kernel(address: u64) -> bool {
    address >> 63 == 1
}
