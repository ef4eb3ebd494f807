//! Tasks that take turns under knee's QEMU plugin. Each task is a thread of the program `tasks`, has a CPU of
//! its own, and executes one command in each turn. During a task's turn, the other CPUs are idle: they have
//! loaded the kernel's own table, so that no shootdown has to interrupt them.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, Ordering::SeqCst};

use knee_operations::trials::{Kind, Trial, WARM_UP, trials};

use crate::arch::Registers;
use crate::command::Command;
use crate::console::println;
use crate::lock::Lock;
use crate::process::{self, Process, Stop, Thread};
use crate::{access, cpu, jobs, machine, programs};

/// Tasks, by CPU. A slot is empty during its task's turn.
pub(crate) struct Tasks(Vec<Lock<Option<Thread>>>);

impl Tasks {
    /// Starts a task for each CPU. The tasks share one address space, unless `processes` is true.
    pub(crate) fn start(cpus: usize, processes: bool) -> Tasks {
        let mut shared = None;
        let start = |nr: usize| {
            let (process, pc) = match shared.clone() {
                Some(shared) if !processes => shared,
                _ => {
                    let (space, pc) = process::load(programs::TASKS);
                    (Arc::new(Process::new(0, space)), pc)
                }
            };
            let registers = Registers::new(pc, process::stack(&process.space, nr as u64), [0, 0]);
            shared = Some((process.clone(), pc));
            Lock::new(Some(Thread { process, registers, catch: 0 }))
        };
        let tasks = Tasks((0..cpus).map(start).collect());
        // The first turn ends when the program asks for a command.
        for cpu in 0..cpus {
            tasks.turn(cpu, None);
        }
        tasks
    }

    /// Lets the task of a CPU execute a command. Returns the status of this turn.
    pub(crate) fn turn(&self, cpu: usize, command: Option<Command>) -> u64 {
        let status = AtomicU64::new(0);
        jobs::on(cpu..cpu + 1, &|cpu| {
            let task = &self.0[cpu];
            let mut thread = task.lock().take().expect("a task takes one turn at a time");
            if let Some(command) = command {
                thread.registers.set_result(command.word());
            }
            status.store(run_turn(&mut thread), SeqCst);
            *task.lock() = Some(thread);
        });
        status.load(SeqCst)
    }

    /// The process of the first task.
    ///
    /// # Panics
    /// If called during the first task's turn.
    pub(crate) fn process(&self) -> Arc<Process> {
        self.0[0].lock().as_ref().expect("the task waits").process.clone()
    }

    /// The number of tasks.
    pub(crate) fn cpus(&self) -> usize {
        self.0.len()
    }

    /// Ends the tasks.
    pub(crate) fn end(self) {
        for thread in self.0.into_iter().filter_map(|task| task.lock().take()) {
            if let Some(process) = Arc::into_inner(thread.process) {
                cpu::drop_space(process.space);
            }
        }
    }
}

/// Runs a thread until its turn ends. Returns the status of the turn.
fn run_turn(thread: &mut Thread) -> u64 {
    let status = loop {
        match thread.run() {
            None | Some(Stop::Again) => (),
            Some(Stop::Turn(status)) => break status,
            Some(Stop::Exit(status)) => panic!("the program tasks ended with status {status}"),
        }
    };
    // The CPU becomes idle.
    cpu::load(None);
    status
}

/// Tells knee where the parts of memory are, makes the plugin observe all code, and runs the trials on the
/// first `cpus` CPUs. Returns the number of tests that the plugin has seen.
pub(crate) fn prepare(cpus: usize) -> u64 {
    for (start, end, name) in machine::memory() {
        println!("knee-memory: {start:#x} {end:#x} {name}");
    }
    access::arm();
    calibrate(cpus)
}

/// Runs trials as the plugin's first tests. The results of the trials are known in advance. Returns the
/// number of trials.
fn calibrate(cpus: usize) -> u64 {
    let kinds = &Kind::WITHOUT_FILES;
    let tasks = Tasks::start(cpus, true);
    for &kind in kinds {
        for cpu in (0..WARM_UP).flat_map(|_| 0..cpus) {
            tasks.turn(cpu, Some(Command::WarmUp(kind)));
        }
    }
    let mut count = 0;
    for Trial { kind, first, second } in trials(kinds, cpus) {
        tasks.turn(first, Some(Command::Trial(kind, 0)));
        tasks.turn(second, Some(Command::Trial(kind, 1)));
        count += 1;
    }
    tasks.end();
    count
}
