//! `knee commute cost`.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::path::PathBuf;

use knee_agent::{CostRequest, Experiment, Mode, OPERATIONS};
use knee_host::number::plural;
use knee_trace::{Emulator, End, GuestOptions, Kernel, cost};

use super::check::{kernel, warn_of_missing};
use crate::exit::{ExitStatus, usage};
use crate::input::emulator::emulator;
use crate::pace::Pace;
use crate::present::commute::cost::{KernelCosts, View, json, text};
use crate::stderr::tell;
use crate::stdout;

/// Rounds before those that count. Caches of each CPU fill; what they fill with comes from lists of
/// the whole machine some ten at a time.
const WARM_UP: u32 = 16;
/// QEMU's PC has no more virtual CPUs that the plugin tells apart.
const MOST_CPUS: u32 = 64;

/// Find out what operations cost in a kernel: instructions, lines of memory, and lines that CPUs take
/// from each other
///
/// The kernel runs unmodified in a guest under QEMU. 1 to 16 virtual CPUs do the same operation with
/// arguments of their own, each in its turn, round after round. What the kernel executes, reads and
/// writes in each is counted, without interrupts and other tasks, and which lines (64 bytes) another
/// CPU had: those are what the operation waits for where cores do it at once. Neither a big machine
/// nor its speed matters, and another run finds the same within some percent.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  knee commute cost munmap                              on the running kernel
  knee commute cost mmap_churn page_fault --kernel bullseye --kernel bookworm --kernel sid
  knee commute cost --kernel vmlinuz-6.12 --json > 6.12.json
  knee commute cost open --mode processes -n 2,32
  knee commute cost --list                              the operations

Status 4: a guest ended before its last experiment.")]
pub(super) struct Args {
    /// Operations; page_fault is page_fault1 and so on; none: all
    #[arg(value_name = "OP")]
    operations: Vec<String>,

    /// How many virtual CPUs do it; one alone is always measured as well
    #[arg(short = 'n', long, value_name = "N,…", value_delimiter = ',',
          default_values_t = [2, 4, 8, 16],
          value_parser = clap::value_parser!(u32).range(1..=i64::from(MOST_CPUS)))]
    cpus: Vec<u32>,

    /// What tasks share: threads have one address space and one table of descriptors
    #[arg(long, value_enum, default_value = "threads")]
    mode: ModeArg,

    /// Rounds that count
    #[arg(long, value_name = "N", default_value_t = 32,
          value_parser = clap::value_parser!(u32).range(1..=10_000))]
    rounds: u32,

    /// A kernel, as of `knee commute check`; several are compared with the first
    #[arg(long = "kernel", value_name = "FILE|RELEASE")]
    kernels: Vec<PathBuf>,

    /// Hottest lines of each operation that are named, with the functions that touch them
    #[arg(long, value_name = "N", default_value_t = 5, conflicts_with = "json")]
    lines: usize,

    /// As JSON, for programs; has a hundred lines of each operation
    #[arg(long)]
    json: bool,

    /// Print the operations that there are
    #[arg(long, conflicts_with_all = ["operations", "json"])]
    list: bool,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum ModeArg {
    Threads,
    Processes,
}

pub(super) fn run(args: &Args) -> anyhow::Result<ExitStatus> {
    if args.list {
        let width = OPERATIONS.iter().map(|operation| operation.name.len()).max().unwrap_or(0);
        let line = |operation: &knee_agent::Operation| {
            format!("{:width$}  {}\n", operation.name, operation.about)
        };
        stdout::print(&OPERATIONS.iter().map(line).collect::<String>())?;
        return Ok(ExitStatus::Done);
    }
    let operations = operations(&args.operations)?;
    let emulator = emulator()?;
    let qemu = emulator.version()?;
    let kernels = match &args.kernels[..] {
        [] => vec![kernel(None)?],
        named => named.iter().map(|named| kernel(Some(named))).collect::<anyhow::Result<_>>()?,
    };
    let cpus: BTreeSet<u32> = args.cpus.iter().copied().chain([1]).collect();
    let mode = match args.mode {
        ModeArg::Threads => Mode::Threads,
        ModeArg::Processes => Mode::Processes,
    };
    let experiment = |operation: &&str, cpus: &u32| Experiment {
        operation: (*operation).to_owned(),
        cpus: *cpus,
    };
    let request = CostRequest {
        experiments: operations
            .iter()
            .flat_map(|operation| cpus.iter().map(move |cpus| experiment(operation, cpus)))
            .collect(),
        mode,
        rounds: WARM_UP + args.rounds,
    };
    let mut costs = Vec::new();
    let mut died = false;
    for kernel in &kernels {
        let (of_kernel, end) = measure(kernel, &request, &emulator)?;
        if !matches!(end, End::PoweredOff) {
            died = true;
            tell!("knee: Linux {}: the guest did not come to its end: {end}", kernel.release());
        }
        costs.push(of_kernel);
    }
    let counts: Vec<u32> = cpus.into_iter().collect();
    let view = View { operations: &operations, cpus: &counts, lines: args.lines };
    let text = match args.json {
        true => json(&costs, args.mode_name(), args.rounds, &qemu),
        false => text(&costs, &view, args.mode_name(), args.rounds),
    };
    stdout::print(&text)?;
    Ok(if died { ExitStatus::TestcaseDied } else { ExitStatus::Done })
}

impl Args {
    fn mode_name(&self) -> &'static str {
        match self.mode {
            ModeArg::Threads => "threads",
            ModeArg::Processes => "processes",
        }
    }
}

fn measure(
    kernel: &Kernel,
    request: &CostRequest,
    emulator: &Emulator,
) -> anyhow::Result<(KernelCosts, End)> {
    let cpus = request.experiments.iter().map(|experiment| experiment.cpus).max().unwrap_or(1);
    let options = GuestOptions { emulator: emulator.clone(), cpus, ..GuestOptions::default() };
    let of = plural(request.experiments.len(), "experiment");
    let release = kernel.release();
    tell!("knee: {of} on Linux {release}; a guest with {} boots", plural(cpus as usize, "CPU"));
    let mut costs = KernelCosts::new(release);
    let (mut done, mut pace) = (0, Pace::begin());
    let mut warned = false;
    let end = cost(kernel, request, &options, |made, functions| {
        warn_of_missing(&mut warned, kernel, functions);
        costs.add(&made, WARM_UP, functions);
        done += 1;
        if pace.is_due() {
            tell!("knee: {done} of {of}, {} is done", made.experiment.operation);
        }
        ControlFlow::Continue(())
    })?;
    Ok((costs, end))
}

/// The operations that words stand for, each once, in the order of all.
fn operations(words: &[String]) -> anyhow::Result<Vec<&'static str>> {
    let all = || OPERATIONS.iter().map(|operation| operation.name);
    let means = |word: &str, name: &str| {
        let rest = name.strip_prefix(word);
        rest.is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_digit()))
    };
    if let Some(word) = words.iter().find(|word| !all().any(|name| means(word, name))) {
        let known: Vec<&str> = all().collect();
        return Err(usage(format!("no operation {word:?}: there are {}", known.join(", "))));
    }
    let wanted = |name: &&str| words.is_empty() || words.iter().any(|word| means(word, name));
    Ok(all().filter(wanted).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_without_its_number_is_all_that_have_one() {
        let of = |words: &[&str]| {
            operations(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>())
        };
        assert_eq!(of(&["mmap_churn"]).unwrap(), ["mmap_churn1", "mmap_churn2"]);
        assert_eq!(of(&["stat", "open", "stat"]).unwrap(), ["open", "stat"]);
        assert_eq!(of(&[]).unwrap().len(), OPERATIONS.len());
        assert!(
            of(&["mmap_"])
                .unwrap_err()
                .to_string()
                .contains("no operation \"mmap_\": there are open")
        );
    }
}
