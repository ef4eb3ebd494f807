//! A task of `knee commute cost`. In each turn, the kernel tells the task what to do.
#![no_std]
#![no_main]

#[path = "../src/command.rs"]
mod command;
mod sys;

use command::{Command, MemoryCall, SIGNAL};
use knee_marks::Mark;
use knee_operations::trials::Kind;
use knee_operations::{Calls, Failed, Memory, Operation, Owner, Part, page_at};

use sys::*;

/// The maximum number of system calls that a trial makes while it waits for an interrupt.
const MOST_CALLS: u32 = 100_000;

/// The system calls of this kernel.
struct System;

/// Turns a negative result of a system call into an error.
fn done(result: i64) -> Result<(), i64> {
    if result < 0 { Err(result) } else { Ok(()) }
}

fn allowed(is_allowed: bool) -> Result<(), i64> {
    if is_allowed { Ok(()) } else { Err(EFAULT) }
}

impl Calls for System {
    type Error = i64;

    fn map_page(&mut self, at: usize) -> Result<(), i64> {
        done(mmap_fixed(at as u64, PAGE, READ | WRITE))
    }

    fn map(&mut self, bytes: usize) -> Result<usize, i64> {
        let at = mmap(bytes as u64, READ | WRITE);
        done(at).map(|()| at as usize)
    }

    fn unmap(&mut self, at: usize, bytes: usize) -> Result<(), i64> {
        done(munmap(at as u64, bytes as u64))
    }

    fn protect_page(&mut self, at: usize, writable: bool) -> Result<(), i64> {
        done(mprotect(at as u64, PAGE, if writable { READ | WRITE } else { READ }))
    }

    fn discard(&mut self, at: usize, bytes: usize) -> Result<(), i64> {
        done(discard(at as u64, bytes as u64))
    }

    fn load(&mut self, at: usize) -> Result<(), i64> {
        allowed(load(at as u64).is_some())
    }

    fn store(&mut self, at: usize) -> Result<(), i64> {
        allowed(store(at as u64, 1))
    }

    /// Does nothing: this kernel makes huge pages only where a program asks for them.
    fn avoid_huge_pages(&mut self) -> Result<(), i64> {
        Ok(())
    }

    /// Allows huge pages in the whole address space, because this kernel has no setting for a part of it.
    fn allow_huge_pages(&mut self, at: usize, bytes: usize) -> Result<(), i64> {
        done(allow_huge_pages(at as u64, bytes as u64))
    }

    fn out_of_memory() -> i64 {
        ENOMEM
    }
}

struct Own(Memory<System>);

impl Owner for Own {
    type Calls = System;

    fn memory(&mut self) -> &mut Memory<System> {
        &mut self.0
    }
}

static OPERATIONS: [Operation<Own, i64>; 9] = Operation::MEMORY;

/// The status of a turn: 0, or a word whose upper half is the part that failed and whose lower half is the
/// error number.
fn status(result: Result<(), Failed<i64>>) -> u64 {
    match result {
        Ok(()) => 0,
        Err((part, error)) => (part as u64) << 32 | -error as u64,
    }
}

fn main() {
    // `Command::SetUp` replaces these initial values of `own` and `operation`.
    let mut own = Own(Memory::new(System, 0, 1));
    let mut operation = &OPERATIONS[0];
    let mut last = 0;
    loop {
        let Some(command) = Command::of(turn(last)) else { exit(1) };
        last = match command {
            Command::Flush => {
                Mark::Flush.emit();
                0
            }
            Command::SetUp { operation: index, nr, tasks } => {
                let Some(chosen) = OPERATIONS.get(usize::from(index)) else { exit(2) };
                operation = chosen;
                own = Own(Memory::new(System, nr.into(), tasks.into()));
                status((operation.set_up)(&mut own).map_err(|error| (Part::SetUp, error)))
            }
            Command::Perform => status(operation.perform(&mut own)),
            Command::Pause => {
                Mark::Begin.emit();
                for side in 0..2 {
                    window(Kind::SharedWord, side);
                }
                Mark::End.emit();
                0
            }
            Command::WarmUp(kind) => {
                operate(kind, 0);
                0
            }
            Command::Trial(kind, side) => {
                if side == 0 {
                    Mark::Begin.emit();
                }
                window(kind, side);
                if side == 1 {
                    Mark::End.emit();
                }
                0
            }
            Command::Begin => {
                Mark::Begin.emit();
                0
            }
            Command::End => {
                Mark::End.emit();
                0
            }
            Command::Call(side, call) => {
                Mark::Open(side).emit();
                let status = make(call);
                Mark::Close(side).emit();
                status
            }
        };
    }
}

/// Makes a call of a test. Returns the result of the system call, the byte that was loaded, or the signal
/// that the access raised.
#[inline(always)]
fn make(call: MemoryCall) -> u64 {
    let at = |page: u8| page_at(page) as u64;
    let protection = |writable| if writable { READ | WRITE } else { READ };
    let status = |accessed: Result<u64, u64>| accessed.unwrap_or_else(|signal| SIGNAL + signal);
    match call {
        MemoryCall::Mmap { page, file: None, writable } => match page {
            Some(page) => mmap_fixed(at(page), PAGE, protection(writable)) as u64,
            None => mmap(PAGE, protection(writable)) as u64,
        },
        MemoryCall::Mmap { page, file: Some((descriptor, offset)), writable } => {
            let at = page.map_or(0, at);
            mmap_file(at, protection(writable), descriptor.into(), offset.into()) as u64
        }
        MemoryCall::Munmap { page } => munmap(at(page), PAGE) as u64,
        MemoryCall::Mprotect { page, writable } => {
            mprotect(at(page), PAGE, protection(writable)) as u64
        }
        MemoryCall::Memread { page } => status(load_or_signal(at(page)).map(|word| word & 0xff)),
        MemoryCall::Memwrite { page, value } => {
            status(store_or_signal(at(page), value.into()).map(|()| 0))
        }
    }
}

/// Performs the operation of one side of a trial. The plugin observes what happens between the two marks.
#[inline(never)]
fn window(kind: Kind, side: u8) {
    Mark::Open(side).emit();
    operate(kind, side);
    Mark::Close(side).emit();
}

#[inline(always)]
fn operate(kind: Kind, side: u8) {
    match kind {
        Kind::NoObject => drop(timer_interrupts()),
        Kind::Interrupted => {
            let before = timer_interrupts();
            for _ in 0..MOST_CALLS {
                if timer_interrupts() != before {
                    break;
                }
            }
        }
        Kind::SharedWord => drop(trial_store(2)),
        Kind::NeighbouringBytes => drop(trial_store(side.into())),
        // `Nothing` needs no operation, and this kernel runs no trials with files.
        Kind::Nothing | Kind::TwoFiles | Kind::OneFile => {}
    }
}
