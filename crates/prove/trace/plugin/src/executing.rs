//! Identifies the executing virtual CPU.
//!
//! QEMU passes the number of the executing CPU to each callback. In versions 10.0 to 11.1, if the virtual
//! CPUs of a guest share a host thread, QEMU makes the number a constant in the translated code
//! (`gen_cpu_index` of accel/tcg/plugin-gen.c, if `CF_PARALLEL` is not set), as if only one CPU executed this
//! code. Callbacks then receive the number of the CPU that *translated* the block, and the work of two CPUs
//! looks like the work of one CPU.
//!
//! Before version 9.0, QEMU does not let plugins read registers, but the number that it passes to callbacks
//! is correct, so the plugin uses that number. With later versions, the plugin identifies a CPU by the base
//! of the kernel's per-CPU data, which is unique to the CPU. While the kernel runs, this is the base of GS.
//! While user code runs, the kernel's base is in the register that `swapgs` exchanges with the base of GS. Of
//! the two registers, the one with an address in the upper half contains the kernel's base. The plugin reads
//! the base at the start of each block that it traces: a CPU executes a block to its end before another CPU
//! runs. It also reads the base at each mark, because marks are in user code, which is traced only if a
//! setting asks for it. CPUs are numbered in the order in which they first appear.

use std::cell::UnsafeCell;
use std::ffi::c_uint;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};

use crate::registers::Registers;
use crate::scope::is_program;
use crate::vcpu::MAX_VCPUS;

/// Whether registers identify the executing CPU. If false, the number that QEMU passes to each callback
/// identifies the CPU.
static BY_REGISTERS: AtomicBool = AtomicBool::new(false);
/// The executing CPU, if registers identify it.
static CURRENT: AtomicU32 = AtomicU32::new(0);
static KNOWN: Shared = Shared(UnsafeCell::new(Known { registers: None, bases: Bases::EMPTY }));

struct Known {
    registers: Option<Registers>,
    bases: Bases,
}

struct Shared(UnsafeCell<Known>);

// SAFETY: only `locate` accesses the cell, and only if registers identify the CPU. The callers of
// `locate` then run on the one thread that executes all virtual CPUs (`-accel tcg,thread=single`),
// and `locate` calls no function that executes instructions of the guest.
unsafe impl Sync for Shared {}

/// Selects how CPUs are identified. Call this function when QEMU has loaded the plugin. If `by_registers` is
/// set and this QEMU lets plugins read registers, registers identify the executing CPU; the virtual CPUs must
/// then share one thread of the host. But if QEMU runs a program without a machine, QEMU's numbers are
/// correct, so the plugin uses these numbers.
pub(crate) fn start(by_registers: bool) {
    BY_REGISTERS.store(by_registers && !is_program() && Registers::can_be_read(), Relaxed);
}

/// Returns the executing CPU. Call this function in a callback that may read registers: at the
/// start of a block, or at a mark.
#[inline]
pub(crate) fn locate(given: c_uint) -> c_uint {
    if !BY_REGISTERS.load(Relaxed) {
        return given;
    }
    // SAFETY: see `Shared`.
    let known = unsafe { &mut *KNOWN.0.get() };
    if known.registers.is_none() {
        known.registers = Registers::find();
    }
    let Some(registers) = &known.registers else {
        eprintln!(
            "knee-plugin: this QEMU cannot read gs_base and k_gs_base, so CPU numbers may be wrong"
        );
        BY_REGISTERS.store(false, Relaxed);
        return given;
    };
    let number = known.bases.number(|| registers.gs_base(), || registers.kernel_gs_base());
    CURRENT.store(number, Relaxed);
    number
}

/// Returns the executing CPU in a callback that is not allowed to read registers: the CPU that [`locate`]
/// found at the start of the block.
#[inline]
pub(crate) fn current(given: c_uint) -> c_uint {
    if BY_REGISTERS.load(Relaxed) { CURRENT.load(Relaxed) } else { given }
}

/// The bases of the kernel's per-CPU data, in the order in which they first appeared.
struct Bases {
    known: [u64; MAX_VCPUS],
    count: usize,
    /// The index of the base that was looked up last.
    last: usize,
}

impl Bases {
    const EMPTY: Bases = Bases { known: [0; MAX_VCPUS], count: 0, last: 0 };

    /// Returns the number of the CPU with these registers, or 0 if neither register contains a base
    /// of the kernel.
    #[inline]
    fn number(&mut self, gs: impl FnOnce() -> u64, kernel_gs: impl FnOnce() -> u64) -> u32 {
        let is_of_kernel = |base: &u64| base >> 63 == 1;
        let base =
            Some(gs()).filter(is_of_kernel).or_else(|| Some(kernel_gs()).filter(is_of_kernel));
        let Some(base) = base else { return 0 };
        if self.known[self.last] == base {
            return self.last as u32;
        }
        self.look_up(base)
    }

    #[cold]
    fn look_up(&mut self, base: u64) -> u32 {
        let known = self.known[..self.count].iter().position(|known| *known == base);
        self.last = known.unwrap_or_else(|| {
            // QEMU has at most `MAX_VCPUS` virtual CPUs, so `min` only guards against a base that belongs to
            // no CPU.
            let place = self.count.min(MAX_VCPUS - 1);
            self.known[place] = base;
            self.count = place + 1;
            place
        });
        self.last as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_base_of_the_kernel_identifies_a_cpu_in_user_and_kernel_mode() {
        let mut bases = Bases::EMPTY;
        let (first, second) = (0xffff_8880_3ec0_0000, 0xffff_8880_3ed0_0000);
        let mut number = |gs, kernel_gs| bases.number(|| gs, || kernel_gs);
        assert_eq!(number(first, 0), 0, "in the kernel");
        assert_eq!(number(0, second), 1, "in user mode");
        assert_eq!(number(0, first), 0, "in user mode again");
        assert_eq!(
            number(second, 0x7fff_0000_1000),
            1,
            "in the kernel, for a program that uses GS"
        );
        assert_eq!(number(0x7fff_0000_1000, second), 1, "before swapgs");
    }

    #[test]
    fn more_cpus_than_qemu_has_do_not_overrun_the_table() {
        let mut bases = Bases::EMPTY;
        for cpu in 0..MAX_VCPUS as u64 + 10 {
            let number = bases.number(|| 0xffff_8000_0000_0000 + cpu * 4096, || 0);
            assert_eq!(number, (cpu as u32).min(MAX_VCPUS as u32 - 1));
        }
    }
}
