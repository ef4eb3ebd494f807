//! The mode for `knee commute cost`: tasks repeat an operation while knee's QEMU plugin traces them.
//!
//! On Linux, the `knee-agent` crate runs these experiments. An experiment runs one operation on a given
//! number of CPUs. The [tasks](crate::tasks) of these CPUs take turns in the order of the CPUs. Each task
//! marks its operations for the plugin, and the kernel reports each experiment on the console.

use alloc::vec::Vec;

use knee_operations::{EXPERIMENT, MEMORY_NAMES, Part};

use crate::command::Command;
use crate::console::println;
use crate::cpu;
use crate::tasks::{self, Tasks};

/// Runs the experiments.
///
/// # Panics
/// If `experiments` is malformed.
pub(crate) fn run(experiments: &str, processes: bool, rounds: u64) {
    let experiments: Vec<(&str, usize)> = experiments.split(',').map(parse).collect();
    let most = experiments.iter().map(|(_, cpus)| *cpus).max().unwrap_or(1);
    let mut first = tasks::prepare(most);
    for (name, cpus) in experiments {
        let failed = experiment(name, cpus, processes, rounds);
        report(name, cpus, first, failed.as_ref());
        if failed.is_some() {
            break;
        }
        // Each task ran one test in each round. After the rounds, one more test made QEMU pause.
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
    let cpus = tasks.cpus();
    turn(0, Command::Flush)?;
    for cpu in 0..cpus {
        turn(cpu, Command::SetUp { operation, nr: cpu as u8, tasks: neighbours })?;
    }
    for _ in 0..rounds {
        (0..cpus).try_for_each(|cpu| turn(cpu, Command::Perform))?;
    }
    turn(0, Command::Pause)
}
