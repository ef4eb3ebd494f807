//! The mode for `knee commute cost`: tasks repeat an operation while knee's QEMU plugin traces them.
//!
//! On Linux, the `knee-agent` crate runs these experiments. An experiment runs one operation on a given
//! number of CPUs. Each CPU has a task, which is a thread of the program `tasks`. The tasks take turns in the
//! order of their CPUs. During a task's turn, the other CPUs are idle: they have loaded the kernel's own
//! table, so that no shootdown has to interrupt them. The program marks each operation for the plugin, and
//! the kernel reports each experiment on the console.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, Ordering::SeqCst};

use knee_operations::trials::{Kind, Trial, WARM_UP, trials};
use knee_operations::{EXPERIMENT, MEMORY_NAMES, Part};

use crate::arch::Registers;
use crate::command::Command;
use crate::console::println;
use crate::lock::Lock;
use crate::process::{self, Process, Stop, Thread};
use crate::{access, cpu, jobs, machine, programs};

/// Runs the experiments.
///
/// # Panics
/// If `experiments` is malformed.
pub(crate) fn run(experiments: &str, processes: bool, rounds: u64) {
    let experiments: Vec<(&str, usize)> = experiments.split(',').map(parse).collect();
    let most = experiments.iter().map(|(_, cpus)| *cpus).max().unwrap_or(1);
    for (start, end, name) in machine::memory() {
        println!("knee-memory: {start:#x} {end:#x} {name}");
    }
    access::arm();
    let mut first = calibrate(most);
    for (name, cpus) in experiments {
        let failed = experiment(name, cpus, processes, rounds);
        report(name, cpus, first, failed.as_ref());
        if failed.is_some() {
            break;
        }
        // One test for each task and round, and the test that makes QEMU pause.
        first += cpus as u64 * rounds + 1;
    }
}

fn parse(experiment: &str) -> (&str, usize) {
    let parts = experiment.split_once(':');
    let parsed = parts.and_then(|(name, cpus)| Some((name, cpus.parse().ok()?)));
    let (name, cpus) = parsed.unwrap_or_else(|| {
        panic!("cost={experiment} is invalid; an example is cost=mmap:1,mmap:4")
    });
    let most = cpu::count();
    assert!((1..=most).contains(&cpus), "cost={experiment} needs {cpus} of {most} CPUs");
    (name, cpus)
}

/// Why an experiment failed.
enum Failure {
    /// The program has no such operation.
    Unknown,
    /// A part of the operation failed with this error number.
    Part(Part, u64),
}

/// Prints the report of an experiment.
fn report(name: &str, cpus: usize, first: u64, failed: Option<&Failure>) {
    let experiment = format_args!("{{\"operation\":\"{name}\",\"cpus\":{cpus}}}");
    let line = |failed: core::fmt::Arguments<'_>| {
        println!(
            "{EXPERIMENT}{{\"experiment\":{experiment},\"first\":{first},\"failed\":{failed}}}"
        );
    };
    match failed {
        None => line(format_args!("null")),
        Some(Failure::Unknown) => {
            let known = MEMORY_NAMES.join(", ");
            line(format_args!("\"the kernel does not have it; it has {known}\""));
        }
        Some(Failure::Part(part, error)) => line(format_args!("\"cannot {part}: error {error}\"")),
    }
}

/// The tasks of an experiment, by CPU. A slot is empty during its task's turn.
struct Tasks(Vec<Lock<Option<Thread>>>);

impl Tasks {
    /// Starts tasks. If `processes` is true, each has its own space; otherwise they share one.
    fn start(cpus: usize, processes: bool) -> Tasks {
        let mut shared = None;
        let start = |nr: usize| {
            let (process, pc) = match shared.clone() {
                Some(shared) if !processes => shared,
                _ => {
                    let (space, pc) = process::load(programs::TASKS);
                    (Arc::new(Process { number: 0, space }), pc)
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
    fn turn(&self, cpu: usize, command: Option<Command>) -> u64 {
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

    /// Ends the tasks.
    fn end(self) {
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

/// Runs trials, whose results are known, as the plugin's first tests. Returns the number of trials.
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

/// Runs an experiment. Returns why the experiment failed, or `None`.
fn experiment(name: &str, cpus: usize, processes: bool, rounds: u64) -> Option<Failure> {
    let Some(operation) = MEMORY_NAMES.iter().position(|known| *known == name) else {
        return Some(Failure::Unknown);
    };
    let tasks = Tasks::start(cpus, processes);
    let result = rounds_of(&tasks, operation as u8, if processes { 1 } else { cpus as u8 }, rounds);
    tasks.end();
    result.err()
}

fn rounds_of(tasks: &Tasks, operation: u8, neighbours: u8, rounds: u64) -> Result<(), Failure> {
    let turn = |cpu: usize, command: Command| match tasks.turn(cpu, Some(command)) {
        0 => Ok(()),
        status => Err(Failure::Part(Part::ALL[(status >> 32) as usize], status & 0xffff_ffff)),
    };
    let cpus = tasks.0.len();
    turn(0, Command::Flush)?;
    for cpu in 0..cpus {
        turn(cpu, Command::SetUp { operation, nr: cpu as u8, tasks: neighbours })?;
    }
    for _ in 0..rounds {
        (0..cpus).try_for_each(|cpu| turn(cpu, Command::Perform))?;
    }
    turn(0, Command::Pause)
}
