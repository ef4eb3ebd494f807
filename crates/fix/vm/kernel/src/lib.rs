//! A small kernel that uses knee-vm and runs under QEMU on x86-64, AArch64 and RISC-V. `docs/kernel.md`
//! explains how to boot the kernel.

#![cfg(target_os = "none")]
#![no_std]

extern crate alloc;

mod access;
mod arch;
mod check;
mod command;
mod console;
mod cost;
mod cpu;
mod elf;
mod files;
mod frames;
mod heap;
mod jobs;
mod late;
mod lock;
mod machine;
mod parameters;
mod process;
mod programs;
mod random;
mod remote;
mod storms;
mod system_call;
mod tasks;

use core::panic::PanicInfo;
use core::sync::atomic::{AtomicUsize, Ordering};

use crate::console::println;
use crate::parameters::Parameters;

/// The frame at which free memory begins, counted from the start of memory: 16 MiB, above the image.
const IMAGE_END: u64 = 4096;
/// The size of the heap, in frames: 48 MiB.
const HEAP: u64 = 12288;
/// How long the other CPUs may take to start, in nanoseconds.
const PATIENCE: u64 = 60_000_000_000;

/// The boot code calls this function on every CPU, on the CPU's stack and with interrupts masked.
#[unsafe(no_mangle)]
extern "C" fn cpu_main(number: usize) -> ! {
    if number == 0 {
        arch::set_tick(parameters::parameters().tick);
    }
    arch::init_cpu(number);
    if number == 0 {
        let parameters = parameters::parameters();
        #[cfg(mutants)]
        if !parameters.mutant.is_empty() {
            static NAME: late::Late<&str> = late::Late::new();
            // SAFETY: only the first CPU executes this code, and only once.
            knee_sync::shim::choose_mutant(unsafe { NAME.set(parameters.mutant) });
        }
        #[cfg(not(mutants))]
        assert!(
            parameters.mutant.is_empty(),
            "this kernel has no mutants; compile it with --cfg mutants"
        );
        cpu::set_count(parameters.cpus);
        if parameters.interrupts {
            remote::use_interrupts();
        }
        if !parameters.cost.is_empty() || parameters.check > 0 {
            // Only the storms need the patterns in free frames.
            frames::omit_patterns();
        }
        let start = arch::MEMORY + IMAGE_END;
        // SAFETY: nothing else uses memory above the image, and this is the first CPU.
        unsafe {
            heap::init(arch::direct(knee_vm::Frame(start)).addr(), (HEAP as usize) << 12);
            let (first, end) = (start + HEAP + parameters.check, arch::MEMORY + parameters.frames);
            assert!(is_memory(end - 1), "memory={} is more than QEMU's -m", parameters.frames >> 8);
            machine::init(first, end, parameters.cpus);
        }
        cpu::init();
        arch::start_cpus(parameters.cpus);
    } else {
        cpu::init();
    }
    static STARTED: AtomicUsize = AtomicUsize::new(0);
    STARTED.fetch_add(1, Ordering::SeqCst);
    let start = arch::clock();
    while STARTED.load(Ordering::SeqCst) < cpu::count() {
        let is_late = number == 0 && arch::clock() - start > PATIENCE;
        assert!(!is_late, "not all {} CPUs start; is cpus= more than QEMU's -smp?", cpu::count());
        core::hint::spin_loop();
    }
    if number > 0 {
        jobs::serve();
    }
    let Parameters { run, cost, check, processes, seed, rounds, .. } = parameters::parameters();
    access::init();
    // SAFETY: only the first CPU executes this code, and only once.
    unsafe { system_call::init() };
    if check > 0 {
        // SAFETY: this memory consists of the frames between the heap and the free frames, and only the
        // first CPU executes this code.
        unsafe { check::run(arch::direct(knee_vm::Frame(arch::MEMORY + IMAGE_END + HEAP)), check) };
    } else if cost.is_empty() {
        programs::run(run);
        storms::run(run, &storms::Options { seed, rounds });
    } else {
        cost::run(cost, processes, rounds);
    }
    println!("passed");
    arch::power_off();
}

/// Whether a frame keeps what is stored to it.
///
/// # Safety
/// Nothing may use the frame.
unsafe fn is_memory(frame: u64) -> bool {
    let word = arch::direct(knee_vm::Frame(frame)).cast::<u64>();
    // SAFETY: the direct mapping contains the frame, and the caller guarantees that nothing uses the frame.
    [0x5a, !0x5a].into_iter().all(|value| unsafe {
        word.write_volatile(value);
        word.read_volatile() == value
    })
}

#[panic_handler]
fn panic(info: &PanicInfo) -> ! {
    // Report the panic on one line, which knee recognizes by `panicked at`.
    let at = info.location().map_or(("", 0), |at| (at.file(), at.line()));
    println!("CPU {}: panicked at {}:{}: {}", arch::cpu_number(), at.0, at.1, info.message());
    println!("failed");
    arch::power_off();
}
