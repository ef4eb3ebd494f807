//! The calling CPU: its knee-vm [`Cpu`], and the space that it has loaded.

use alloc::boxed::Box;
use core::cell::Cell;
use core::ptr;
use core::sync::atomic::{AtomicUsize, Ordering};

use knee_vm::{Flush, LazyMachine};

use crate::arch::{self, Interrupt, MOST_CPUS, Registers, Trap, cpu_number};
use crate::machine::{Cpu, Space, board};
use crate::remote;

/// The state of a CPU, which no other CPU uses.
struct Own {
    cpu: Cell<Option<&'static Cpu>>,
    /// The space whose table is loaded, or null if the kernel's own table is loaded.
    loaded: Cell<*const Space>,
    /// How many times the timer has interrupted a program on this CPU.
    timer_interrupts: Cell<u64>,
}

#[repr(align(128))]
struct Slot(Own);

// SAFETY: each CPU uses its own slot.
unsafe impl Sync for Slot {}

impl Own {
    const fn new() -> Own {
        Own { cpu: Cell::new(None), loaded: Cell::new(ptr::null()), timer_interrupts: Cell::new(0) }
    }
}

static CPUS: [Slot; MOST_CPUS] = [const { Slot(Own::new()) }; MOST_CPUS];

static COUNT: AtomicUsize = AtomicUsize::new(1);

fn own() -> &'static Own {
    &CPUS[cpu_number()].0
}

/// The number of CPUs.
pub(crate) fn count() -> usize {
    COUNT.load(Ordering::Relaxed)
}

/// Sets the number of CPUs. Must be called before the other CPUs start.
pub(crate) fn set_count(count: usize) {
    COUNT.store(count, Ordering::Relaxed);
}

/// Prepares the calling CPU for operations on spaces.
pub(crate) fn init() {
    board().ticks().cpu_online(cpu_number());
    // SAFETY: each CPU calls this once, and no other CPU uses the result.
    let cpu = unsafe { Cpu::new(board(), cpu_number()) };
    own().cpu.set(Some(Box::leak(Box::new(cpu))));
}

/// The calling CPU.
pub(crate) fn current() -> &'static Cpu {
    own().cpu.get().expect("the CPU has called `init`")
}

/// Returns how many times the timer has interrupted a program on the calling CPU.
pub(crate) fn timer_interrupts() -> u64 {
    own().timer_interrupts.get()
}

/// Loads the table of a space, or the kernel's own table. The space must stay at its address until
/// [`drop_space`].
pub(crate) fn load(space: Option<&Space>) {
    let (old, new) = (own().loaded.get(), space.map_or(ptr::null(), ptr::from_ref));
    if old == new {
        return;
    }
    if let Some(space) = space {
        space.activate(current());
        arch::load(space.table(), space.number());
    } else {
        arch::load_kernel();
    }
    own().loaded.set(new);
    if !arch::KEEPS_ENTRIES && !old.is_null() {
        // SAFETY: a space is dropped only after all CPUs have left it, so `old` still exists. Loading another
        // table has flushed the entries of `old`.
        unsafe { (*old).deactivate(current()) };
    }
}

/// Makes this CPU leave a space, whether or not the space is loaded. A space can be dropped once all CPUs
/// have left it.
pub(crate) fn leave(space: &Space) {
    if ptr::eq(own().loaded.get(), space) {
        load(None);
    }
    flush(space.number(), Flush::All);
    // SAFETY: another table is loaded, and all entries of the space were flushed.
    unsafe { space.deactivate(current()) };
}

/// Drops a space that no program uses any more. The space must not have moved to another box since a CPU
/// loaded it, because CPUs remember its address.
#[allow(clippy::boxed_local, reason = "the address matters")]
pub(crate) fn drop_space(space: Box<Space>) {
    leave(&space);
    for other in space.active_cpus() {
        remote::leave(cpu_number(), other, &space);
    }
    drop(space);
}

/// Flushes entries of a space from this CPU's TLB.
pub(crate) fn flush(space: u64, what: Flush) {
    let loaded = own().loaded.get();
    // SAFETY: a space is dropped only after all CPUs have left it.
    let is_loaded = !loaded.is_null() && unsafe { (*loaded).number() } == space;
    arch::flush(space, what, is_loaded);
}

/// Loads a space, and runs a program in it until a system call, a timer interrupt, or a fault that the space
/// cannot resolve.
pub(crate) fn run(space: &Space, registers: &mut Registers) -> Event {
    load(Some(space));
    loop {
        remote::handle();
        match registers.run() {
            Trap::Interrupt(Interrupt::Timer) => {
                board().ticks().tick(cpu_number(), arch::flush_all);
                let count = &own().timer_interrupts;
                count.set(count.get() + 1);
                return Event::Tick;
            }
            Trap::Interrupt(_) => (),
            Trap::SystemCall => return Event::SystemCall,
            Trap::Fault { address, access } => {
                match space.fault(current(), address.page(), access) {
                    Ok(()) | Err(knee_vm::Fault::Retry) => (),
                    Err(fault) => return Event::Fault(fault, address.0),
                }
            }
            Trap::Exception { cause, at } => panic!("exception {cause:#x} of a program at {at:#x}"),
        }
    }
}

/// Why [`run`] has returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Event {
    SystemCall,
    /// A timer interrupt.
    Tick,
    /// A fault that the space cannot resolve, and the address of the access.
    Fault(knee_vm::Fault, u64),
}
