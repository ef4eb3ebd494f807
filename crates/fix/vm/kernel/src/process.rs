//! Processes and their threads. Each process has its own space, and any CPU may run any thread.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::sync::Arc;

use knee_plan::{SIGBUS, SIGSEGV};
use knee_vm::{Fault, Page, Pages, Protection};

use crate::arch::Registers;
use crate::cpu::{self, Event};
use crate::files::Descriptors;
use crate::jobs::on_each_cpu;
use crate::lock::Lock;
use crate::machine::Space;
use crate::{elf, remote, system_call};

/// A process. It exists until its last thread has ended.
pub(crate) struct Process {
    pub(crate) number: u64,
    pub(crate) space: Box<Space>,
    pub(crate) descriptors: Descriptors,
}

impl Process {
    /// A process without open files.
    pub(crate) fn new(number: u64, space: Box<Space>) -> Process {
        Process { number, space, descriptors: Descriptors::default() }
    }
}

/// A thread of a process.
pub(crate) struct Thread {
    pub(crate) process: Arc<Process>,
    pub(crate) registers: Registers,
    /// The address at which the thread continues after a memory access that fails. The thread's result
    /// register then contains the number of the signal that Linux would raise. If the address is 0, the
    /// failed access ends the thread.
    pub(crate) catch: u64,
}

/// What a thread does after a system call.
pub(crate) enum Next {
    Continue,
    Stop(Stop),
}

/// Why a thread does not continue after a system call.
pub(crate) enum Stop {
    /// The thread lets other threads run, and then repeats the system call.
    Again,
    /// The thread's turn has ended with this status; see [`crate::cost`].
    Turn(u64),
    /// The thread ends with this status.
    Exit(u64),
}

/// The processes and threads of all CPUs.
struct Table {
    /// Threads that wait for a CPU.
    ready: VecDeque<Thread>,
    /// The number of threads.
    threads: usize,
    /// The status of each process, by process number.
    processes: BTreeMap<u64, Status>,
    last: u64,
}

#[derive(Clone, Copy, Default)]
struct Status {
    /// The first nonzero status with which a thread has ended, or 0.
    value: u64,
    has_ended: bool,
}

static TABLE: Lock<Table> =
    Lock::new(Table { ready: VecDeque::new(), threads: 0, processes: BTreeMap::new(), last: 0 });

/// The status of a thread that a fault has ended.
const KILLED: u64 = 1000;

/// The first page of the stack of a program's first thread.
const STACKS: Page = Page(0x7f_0000);
/// The size of a stack, in pages.
const STACK: u64 = 16;
/// The distance between two stacks, in pages: each stack has a page table of its own.
const STACK_APART: u64 = 512;

/// Runs a program on all CPUs. Returns its status.
pub(crate) fn run(program: &'static [u8]) -> u64 {
    let (space, pc) = load(program);
    let registers = Registers::new(pc, stack(&space, 0), [0, 0]);
    let number = start(space, registers, 0);
    on_each_cpu(&|_| {
        while TABLE.lock().threads > 0 {
            remote::handle();
            let next = TABLE.lock().ready.pop_front();
            match next {
                Some(thread) => run_thread(thread),
                None => core::hint::spin_loop(),
            }
        }
        cpu::load(None);
    });
    let mut table = TABLE.lock();
    let status = table.processes.remove(&number).expect("the process has run");
    status.value
}

/// Loads a program into a new space. Returns the space and the program's entry point.
pub(crate) fn load(program: &'static [u8]) -> (Box<Space>, u64) {
    let space = Box::new(Space::new(cpu::current()).expect("there is memory"));
    let pc = elf::load(&space, program);
    (space, pc)
}

/// Maps the stack of the thread with this number. Returns the address at which the stack begins: its upper
/// end.
pub(crate) fn stack(space: &Space, number: u64) -> u64 {
    let pages = Pages::new(Page(STACKS.0 - number * STACK_APART), STACK);
    space.map(cpu::current(), pages, Protection::READ_WRITE).expect("the pages are free");
    pages.end.address().0
}

/// Adds a process with one thread. Returns its number.
pub(crate) fn start(space: Box<Space>, registers: Registers, catch: u64) -> u64 {
    let mut table = TABLE.lock();
    table.last += 1;
    let number = table.last;
    table.processes.insert(number, Status::default());
    table.threads += 1;
    let process = Arc::new(Process::new(number, space));
    table.ready.push_back(Thread { process, registers, catch });
    number
}

/// Adds a thread to a process.
pub(crate) fn add(thread: Thread) {
    let mut table = TABLE.lock();
    table.threads += 1;
    table.ready.push_back(thread);
}

/// Removes a process that has ended. Returns its status, or `None` if no process with this number has ended.
pub(crate) fn reap(number: u64) -> Option<u64> {
    let mut table = TABLE.lock();
    let status = table.processes.get(&number).filter(|status| status.has_ended).copied()?;
    table.processes.remove(&number);
    Some(status.value)
}

/// Runs a thread until it ends, its time slice ends, or it must let other threads run.
fn run_thread(mut thread: Thread) {
    match thread.run() {
        None | Some(Stop::Again | Stop::Turn(_)) => TABLE.lock().ready.push_back(thread),
        Some(Stop::Exit(status)) => end(thread, status),
    }
}

impl Thread {
    /// Runs the thread until it stops, and returns why. Returns `None` if a timer interrupt stopped the
    /// thread.
    pub(crate) fn run(&mut self) -> Option<Stop> {
        loop {
            match cpu::run(&self.process.space, &mut self.registers) {
                Event::Tick => return None,
                Event::SystemCall => match system_call::handle(self) {
                    Next::Continue => (),
                    Next::Stop(stop) => return Some(stop),
                },
                Event::Fault(fault, _) if self.catch != 0 => {
                    self.registers.set_result(signal(fault));
                    self.registers.jump(self.catch);
                }
                Event::Fault(..) => return Some(Stop::Exit(KILLED)),
            }
        }
    }
}

/// The number of the signal that Linux would raise.
fn signal(fault: Fault) -> u64 {
    let signal = match fault {
        Fault::BeyondEnd | Fault::PagerFailed | Fault::OutOfMemory => SIGBUS,
        _ => SIGSEGV,
    };
    signal as u64
}

/// Ends a thread, and also its process if this was the last thread. The status of a process is the first
/// nonzero status of its threads.
fn end(thread: Thread, status: u64) {
    let number = thread.process.number;
    let with = |change: &dyn Fn(&mut Status)| {
        // The entry exists, because it is removed only after `has_ended` is set.
        TABLE.lock().processes.get_mut(&number).into_iter().for_each(change);
    };
    with(&|entry| {
        if entry.value == 0 {
            entry.value = status;
        }
    });
    if let Some(process) = Arc::into_inner(thread.process) {
        cpu::drop_space(process.space);
        with(&|entry| entry.has_ended = true);
    }
    TABLE.lock().threads -= 1;
}
