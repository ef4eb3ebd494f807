//! The architecture-specific code. The module of each architecture has the same items:
//!
//! * `Format`: the page-table format. `MEMORY`: the first frame of memory. `REGISTERS`: a frame of device
//!   registers.
//! * `has_gigabyte_pages`: whether the CPUs support pages of 1 GiB.
//! * `KEEPS_ENTRIES`: whether TLB entries are tagged with an address-space identifier, so that the TLB keeps
//!   the entries of a space when the CPU loads another space.
//! * `Registers`: the state of a program. `run` enters user mode, and returns when the program traps.
//! * `init_cpu`, `start_cpus`, `power_off`, `put_byte`, `clock`, `idle`, `interrupt`.
//! * `load`, `load_kernel`, `begin_root`, `direct`, `flush`, `BROADCAST`, `prepare_code`.

#[cfg_attr(target_arch = "x86_64", path = "x86_64.rs")]
#[cfg_attr(target_arch = "aarch64", path = "aarch64.rs")]
#[cfg_attr(target_arch = "riscv64", path = "riscv64.rs")]
mod this;

use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use knee_vm::{CpuSet, Flush, Protection, VirtAddr};

pub(crate) use this::*;

/// The maximum number of CPUs. On AArch64, the GICv2 limits the number to 8.
pub(crate) const MOST_CPUS: usize = 16;

/// A CPU's stack has `1 << STACK_SHIFT` bytes. Stacks are aligned to their size, so that the stack pointer
/// determines the CPU's number.
pub(crate) const STACK_SHIFT: u32 = 16;

#[repr(align(65536))]
struct Stack(#[allow(dead_code, reason = "used as memory")] UnsafeCell<[u8; 1 << STACK_SHIFT]>);

// SAFETY: each stack belongs to one CPU.
unsafe impl Sync for Stack {}

static STACKS: [Stack; MOST_CPUS] =
    [const { Stack(UnsafeCell::new([0; 1 << STACK_SHIFT])) }; MOST_CPUS];

/// The number of the calling CPU.
pub(crate) fn cpu_number() -> usize {
    let stacks = STACKS.as_ptr().addr();
    (stack_pointer() - stacks) >> STACK_SHIFT
}

static TICK: AtomicU64 = AtomicU64::new(10);

/// The time between two timer interrupts of a CPU, in milliseconds.
fn tick() -> u64 {
    TICK.load(Relaxed)
}

/// Sets the time between two timer interrupts, for CPUs that call [`init_cpu`] later.
pub(crate) fn set_tick(milliseconds: u64) {
    TICK.store(milliseconds, Relaxed);
}

/// A function that flushes the TLBs of several CPUs. Its arguments are the calling CPU, the CPUs that must
/// flush, the number of the space, and the entries to flush.
pub(crate) type Broadcast = fn(usize, &CpuSet, u64, Flush);

/// Why a program has trapped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trap {
    /// A memory access that the page table does not allow.
    Fault {
        address: VirtAddr,
        access: Protection,
    },
    /// A system call. [`Registers::system_call`] returns its number and arguments.
    SystemCall,
    Interrupt(Interrupt),
    /// Any other exception, with its architecture-specific number and the program counter.
    Exception {
        cause: u64,
        at: u64,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Interrupt {
    /// Another CPU has posted a request.
    Ipi,
    Timer,
    /// No interrupt, or an interrupt that needs no action.
    Spurious,
}
