//! The system calls of programs: memory management, with the same results as on Linux, and a few others that
//! the programs need.

use alloc::boxed::Box;
use core::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};

use knee_operations::trials::{NEIGHBOURS_AT, WORD_AT};
use knee_vm::{Fault, MapError, MemoryType, Object, PAGE, Page, Pages, Protection, Sharing};

use crate::arch::{self, Registers};
use crate::cpu::{self, current};
use crate::files::{self, Open};
use crate::late::Late;
use crate::machine::Board;
use crate::process::{self, Next, Process, Stop, Thread};

// Errors, as on Linux.
const EBADF: i64 = -9;
const ENOMEM: i64 = -12;
const EACCES: i64 = -13;
const EFAULT: i64 = -14;
const EEXIST: i64 = -17;
const ENODEV: i64 = -19;
const EINVAL: i64 = -22;
const ENOSYS: i64 = -38;

/// Handles the system call of a thread. `user/sys.rs` lists the system-call numbers.
pub(crate) fn handle(thread: &mut Thread) -> Next {
    let (number, [first, second, third, fourth, ..]) = thread.registers.system_call();
    let result = match number {
        0 => return Next::Stop(Stop::Exit(first)),
        1 => mmap(thread, first, second, third, fourth),
        2 => change(first, second, |pages| thread.process.space.unmap(current(), pages)),
        3 => change(first, second, |pages| {
            thread.process.space.protect(current(), pages, protection(third))
        }),
        4 => mremap(thread, first, second, third),
        5 => madvise(thread, first, second, third),
        6 => fork(thread),
        7 => match process::reap(first) {
            Some(status) => status as i64,
            None => {
                thread.registers.repeat();
                return Next::Stop(Stop::Again);
            }
        },
        8 => {
            let process = thread.process.clone();
            let registers = Registers::new(first, second, [third, 0]);
            process::add(Thread { process, registers, catch: thread.catch });
            0
        }
        9 => {
            thread.catch = first;
            0
        }
        10 => mmap_registers(thread, first, second),
        11 => return Next::Stop(Stop::Turn(first)),
        12 => trial_store(first),
        13 => cpu::timer_interrupts() as i64,
        14 => mmap_file(thread, first, second, third, fourth),
        _ => ENOSYS,
    };
    thread.registers.set_result(result as u64);
    Next::Continue
}

/// Returns the pages of a range of bytes. The last page may be partial. Returns `None` if the range is empty,
/// overflows, or does not begin at a page boundary.
fn pages(address: u64, bytes: u64) -> Option<Pages> {
    let count = bytes.checked_add(PAGE as u64 - 1)? / PAGE as u64;
    (address.is_multiple_of(PAGE as u64) && bytes > 0)
        .then(|| Pages::checked(Page(address / PAGE as u64), count))?
}

/// `PROT_READ`, `PROT_WRITE` and `PROT_EXEC`.
fn protection(bits: u64) -> Protection {
    Protection::from_bits_truncate(bits as u8 & 7)
}

fn error(error: MapError) -> i64 {
    match error {
        MapError::Occupied => EEXIST,
        MapError::Empty => EINVAL,
        _ => ENOMEM,
    }
}

fn address(pages: Pages) -> i64 {
    pages.start.address().0 as i64
}

/// Calls `with` on the pages of a range of bytes.
fn change(at: u64, bytes: u64, with: impl FnOnce(Pages) -> Result<(), MapError>) -> i64 {
    match pages(at, bytes) {
        Some(pages) => with(pages).map_or_else(error, |()| 0),
        None => EINVAL,
    }
}

/// Maps anonymous memory. If `fixed` is 0, the space chooses the address. If `fixed` is 1, the call fails if
/// a page of the range is mapped (`MAP_FIXED_NOREPLACE`). If `fixed` is 2, the call replaces existing
/// mappings (`MAP_FIXED`).
fn mmap(thread: &Thread, at: u64, bytes: u64, bits: u64, fixed: u64) -> i64 {
    let (space, protection) = (&thread.process.space, protection(bits));
    let Some(pages) = pages(at, bytes) else { return EINVAL };
    let result = match fixed {
        0 => space.map_anywhere(current(), pages.count(), protection),
        1 => space.map(current(), pages, protection).map(|()| pages),
        // Usually, the pages are free, and mapping them takes less work than replacing them.
        2 => match space.map(current(), pages, protection) {
            Err(MapError::Occupied) => space.replace(current(), pages, protection).map(|()| pages),
            other => other.map(|()| pages),
        },
        _ => return EINVAL,
    };
    result.map_or_else(error, address)
}

/// Maps a page of an open file: at this address, in place of an existing mapping, or anywhere if `at` is 0.
fn mmap_file(thread: &Thread, at: u64, bits: u64, descriptor: u64, page: u64) -> i64 {
    let Process { space, descriptors, .. } = &*thread.process;
    let protection = protection(bits);
    let file = match descriptors.get(descriptor) {
        None => return EBADF,
        Some(Open::File(file)) => file,
        // Linux first checks whether the file was opened with the access that the mapping needs, and then
        // whether a file of this kind can be mapped.
        Some(Open::ReadEnd) if protection.contains(Protection::WRITE) => return EACCES,
        Some(Open::ReadEnd) => return ENODEV,
        Some(Open::WriteEnd) => return EACCES,
    };
    let (object, sharing) = (files::object(file), Sharing::Shared);
    let result = if at == 0 {
        space.map_object_anywhere(current(), 1, object, page, protection, sharing)
    } else {
        let Some(pages) = pages(at, PAGE as u64) else { return EINVAL };
        let mapped = space.map_object(current(), pages, object, page, protection, sharing);
        let mapped = match mapped {
            Err(MapError::Occupied) => {
                space.replace_with_object(current(), pages, object, page, protection, sharing)
            }
            other => other,
        };
        mapped.map(|()| pages)
    };
    result.map_or_else(error, address)
}

/// The registers of a device, which programs can map.
static REGISTERS: Late<Object<'static, Board>> = Late::new();

/// Creates the object of the device registers.
///
/// # Safety
/// Must be called once, by the first CPU.
pub(crate) unsafe fn init() {
    // SAFETY: these registers exist on each machine that this kernel supports. Reading them has no effect on
    // the kernel's memory.
    let object = unsafe {
        Object::of_device(current(), arch::REGISTERS, 1, MemoryType::Device, Protection::READ)
    };
    // SAFETY: the caller guarantees that this is the only call.
    unsafe { REGISTERS.set(object.expect("there is memory")) };
}

/// Maps the device registers at this address.
fn mmap_registers(thread: &Thread, at: u64, bits: u64) -> i64 {
    let Some(pages) = pages(at, PAGE as u64) else { return EINVAL };
    let object = REGISTERS.get().expect("`init` was called");
    let space = &thread.process.space;
    let result = space.map_object(current(), pages, object, 0, protection(bits), Sharing::Shared);
    result.map_or_else(error, |()| address(pages))
}

/// Changes the size of a mapping, and may move the mapping.
fn mremap(thread: &Thread, at: u64, bytes: u64, new_bytes: u64) -> i64 {
    let space = &thread.process.space;
    let (Some(old), Some(new)) = (pages(at, bytes), pages(at, new_bytes)) else { return EINVAL };
    let result = match space.remap(current(), old, new) {
        // The mapping cannot grow in place, because the pages after it are in use.
        Err(MapError::Occupied) => space.remap_anywhere(current(), old, new.count()),
        other => other.map(|()| new),
    };
    result.map_or_else(error, address)
}

fn madvise(thread: &Thread, at: u64, bytes: u64, advice: u64) -> i64 {
    const DONTNEED: u64 = 4;
    const HUGEPAGE: u64 = 14;
    const POPULATE_READ: u64 = 22;
    let space = &thread.process.space;
    match advice {
        DONTNEED => change(at, bytes, |pages| space.discard(current(), pages)),
        // A space has one setting for all of its memory.
        HUGEPAGE => change(at, bytes, |_| {
            space.set_large_pages(true);
            Ok(())
        }),
        POPULATE_READ => match pages(at, bytes).map(|pages| space.populate(current(), pages)) {
            Some(Ok(())) => 0,
            Some(Err(Fault::OutOfMemory)) => ENOMEM,
            Some(Err(_)) => EFAULT,
            None => EINVAL,
        },
        _ => EINVAL,
    }
}

fn fork(thread: &Thread) -> i64 {
    match thread.process.space.fork(current()) {
        Ok(copy) => {
            let mut registers = thread.registers.clone();
            registers.set_result(0);
            process::start(Box::new(copy), registers, thread.catch) as i64
        }
        Err(failed) => error(failed),
    }
}

/// Two cache lines to which the kernel stores for trials: a line of words, and a line of bytes.
#[repr(C, align(128))]
struct Lines([AtomicU64; 8], [AtomicU8; 64]);

static LINES: Lines = Lines([const { AtomicU64::new(0) }; 8], [const { AtomicU8::new(0) }; 64]);

/// Stores to memory for a trial: to the shared word if `side` is 2, and to the side's own byte if `side` is 0
/// or 1. The store is a swap whose old value is returned, because the compiler could omit a plain store to
/// memory that nothing loads.
fn trial_store(side: u64) -> i64 {
    match side {
        0 | 1 => LINES.1[NEIGHBOURS_AT + side as usize].swap(1, Relaxed).into(),
        2 => LINES.0[WORD_AT / 8].swap(1, Relaxed) as i64,
        _ => EINVAL,
    }
}
