//! `knee commute cost`.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::path::PathBuf;

use knee_agent::{CostRequest, Experiment};
use knee_host::number::plural;
use knee_host::suggest::{nearest, question_or};
use knee_host::text::Screen;
use knee_results::Mode;
use knee_trace::{Emulator, End, GuestKernel, GuestOptions, KneeKernel, WARM_UP, cost};

use super::complete;
use crate::args::modes::one_mode;
use crate::args::whole;
use crate::exit::{ExitStatus, bail_usage};
use crate::input::emulator::emulator;
use crate::input::kernel::{kernels, mode_of_tasks, warn_of_missing};
use crate::present::commute::cost::{KernelCosts, View, json, list, text};
use crate::progress::{Amount, Progress};
use crate::stderr::tell;
use crate::stdout;

/// Maximum virtual CPUs of QEMU's PC that the plugin can distinguish.
const MOST_CPUS: u32 = 64;

/// Measure what operations cost in a kernel: instructions, cache lines touched, and cache lines
/// transferred between CPUs
///
/// knee runs the unmodified kernel in a guest under QEMU. By default, 1 to 16 virtual CPUs take
/// turns running the same operation, each with its own arguments, round after round. For each
/// operation, knee counts the instructions that the kernel executes, and the cache lines (64 bytes)
/// that it reads and writes, excluding interrupts and other tasks. knee also counts the lines that
/// must be transferred from another CPU, how often an operation visits them, and the locks that it
/// takes. When real cores run the operation at the same time, they wait for these lines. The
/// results do not depend on the size or speed of this machine. Repeated runs agree within a few
/// percent.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  knee commute cost munmap                              on the running kernel
  knee commute cost mmap_churn page_fault --kernel bullseye --kernel bookworm --kernel sid
  knee commute cost --kernel ./vmlinuz-6.12 --json > 6.12.json
  knee commute cost open -m processes --cpus 2,32
  knee commute cost --kernel bookworm --guest-kernel target/x86_64-unknown-none/release/knee-kernel
  knee commute cost --list                              list the operations

Exit status:
  4  a guest ended before knee had measured every operation")]
pub(super) struct Args {
    /// Operations [default: all]; mmap_churn selects mmap_churn1 and mmap_churn2
    #[arg(value_name = "OP", add = complete::costs())]
    operations: Vec<String>,

    /// Virtual CPU counts; knee always measures one CPU as well
    #[arg(long, value_name = "N,...", value_delimiter = ',',
          default_values_t = [2, 4, 8, 16],
          value_parser = whole::<u32>(1..=MOST_CPUS))]
    cpus: Vec<u32>,

    /// Processes or threads; threads share one address space and one descriptor table
    #[arg(short, long, value_parser = one_mode(), default_value = "threads")]
    mode: Mode,

    /// Number of measured rounds, after the warm-up rounds
    #[arg(short, long, value_name = "N", default_value_t = 32,
          value_parser = whole::<u32>(1..=10_000))]
    rounds: u32,

    /// Kernel, as for `knee commute check`; repeat the option to compare other kernels with the
    /// first
    #[arg(long = "kernel", value_name = "FILE|RELEASE")]
    kernels: Vec<PathBuf>,

    /// Build of knee's own kernel (the crate knee-kernel), which has the operations on memory and
    /// supports up to 16 CPUs; repeat the option to compare builds
    ///
    /// Without --kernel, knee measures only these builds.
    #[arg(long, value_name = "FILE")]
    guest_kernel: Vec<PathBuf>,

    /// Maximum number of cache lines to print for each operation, hottest first, with the
    /// functions that access them
    #[arg(long, value_name = "N", default_value_t = 5, conflicts_with = "json",
          value_parser = whole::<usize>(0..=usize::MAX))]
    top: usize,

    /// Print JSON, with up to a hundred cache lines for each operation
    #[arg(long)]
    json: bool,

    /// List the operations
    #[arg(long, conflicts_with_all = ["operations", "json"])]
    list: bool,
}

pub(super) fn run(args: &Args) -> anyhow::Result<ExitStatus> {
    if args.list {
        stdout::show(&list(knee_agent::operations()))?;
        return Ok(ExitStatus::Done);
    }
    let cpus: BTreeSet<u32> = args.cpus.iter().copied().chain([1]).collect();
    let own = args.guest_kernel.iter().map(|file| Ok(GuestKernel::Knee(KneeKernel::open(file)?)));
    let own: Vec<GuestKernel> = own.collect::<anyhow::Result<_>>()?;
    let (mut known, most) = (catalogue(), cpus.last().copied().unwrap_or(1));
    if !own.is_empty() {
        known.retain(|name| KneeKernel::OPERATIONS.contains(name));
        if most > KneeKernel::MOST_CPUS {
            bail_usage!("knee's kernel has at most {} CPUs, not {most}", KneeKernel::MOST_CPUS);
        }
    }
    let operations = operations(&args.operations, &known)?;
    let emulator = emulator()?;
    let qemu = emulator.version()?;
    let mut kernels = match args.kernels.is_empty() && !own.is_empty() {
        true => Vec::new(),
        false => kernels(&args.kernels)?,
    };
    kernels.extend(own);
    let experiment = |operation: &&str, cpus: &u32| Experiment {
        operation: (*operation).to_owned(),
        cpus: *cpus,
    };
    let request = CostRequest {
        experiments: operations
            .iter()
            .flat_map(|operation| cpus.iter().map(move |cpus| experiment(operation, cpus)))
            .collect(),
        mode: mode_of_tasks(args.mode),
        rounds: WARM_UP + args.rounds,
    };
    let mut costs = Vec::new();
    let mut died = false;
    for kernel in &kernels {
        let (of_kernel, end) = measure(kernel, &request, &emulator)?;
        if !matches!(end, End::PoweredOff) {
            died = true;
            tell!("knee: {kernel}: the guest ended too early: {end}");
        }
        costs.push(of_kernel);
    }
    let counts: Vec<u32> = cpus.into_iter().collect();
    let view = View { operations: &operations, cpus: &counts, lines: args.top };
    let (mode, rounds) = (args.mode.as_str(), args.rounds);
    match args.json {
        true => stdout::print_json(&json(&costs, mode, rounds, &qemu))?,
        false => stdout::show(&text(&costs, &view, mode, rounds, &Screen::of_stdout()))?,
    }
    Ok(if died { ExitStatus::TestcaseDied } else { ExitStatus::Done })
}

fn measure(
    kernel: &GuestKernel,
    request: &CostRequest,
    emulator: &Emulator,
) -> anyhow::Result<(KernelCosts, End)> {
    let cpus = request.experiments.iter().map(|experiment| experiment.cpus).max().unwrap_or(1);
    let options = GuestOptions { emulator: emulator.clone(), cpus, ..GuestOptions::default() };
    let of = plural(request.experiments.len(), "experiment");
    let cpus = plural(cpus as usize, "CPU");
    tell!("knee: booting a guest with {kernel} and {cpus} for {of}");
    let mut costs = KernelCosts::new(&kernel.to_string(), &kernel.release());
    let (mut done, mut progress) = (0, Progress::new(false));
    let all = request.experiments.len() as u64;
    let mut warned = false;
    let end = cost(kernel, request, &options, |made, functions| {
        if let GuestKernel::Linux(kernel) = kernel {
            warn_of_missing(&mut warned, kernel, functions);
        }
        costs.add(&made, WARM_UP, functions);
        done += 1;
        let amount = Amount { done, of: all, unit: "experiments" };
        progress.show(&amount, || made.experiment.operation.to_string());
        ControlFlow::Continue(())
    })?;
    Ok((costs, end))
}

/// The names of all operations.
fn catalogue() -> Vec<&'static str> {
    knee_agent::operations().map(|operation| operation.name).collect()
}

/// The operations that the words select, without duplicates, in the order of `known`. These are the
/// operations that all kernels have.
fn operations(words: &[String], known: &[&'static str]) -> anyhow::Result<Vec<&'static str>> {
    let all = catalogue();
    // A word that is not a name stands for the names that extend it with digits.
    let means = |word: &str, name: &str| match all.contains(&word) {
        true => word == name,
        false => name
            .strip_prefix(word)
            .is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_digit())),
    };
    if let Some(word) = words.iter().find(|word| !known.iter().any(|name| means(word, name))) {
        if all.iter().any(|name| means(word, name)) {
            let list = known.join(", ");
            bail_usage!("knee's kernel has no operation {word:?}; the operations are {list}");
        }
        let names = nearest(word, known.iter().copied());
        let hint = question_or(&names, "; to list all: knee commute cost --list");
        bail_usage!("no operation is named {word:?}{hint}");
    }
    let wanted = |name: &&str| words.is_empty() || words.iter().any(|word| means(word, name));
    Ok(known.iter().copied().filter(wanted).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_without_its_number_selects_all_numbers() {
        let of = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            operations(&words, &catalogue())
        };
        assert_eq!(of(&["mmap_churn"]).unwrap(), ["mmap_churn1", "mmap_churn2"]);
        assert_eq!(of(&["stat", "open", "stat"]).unwrap(), ["open", "stat"]);
        assert_eq!(of(&["open"]).unwrap(), ["open"], "open1 is another operation");
        assert_eq!(of(&[]).unwrap().len(), catalogue().len());
        let unknown = of(&["mmap_"]).unwrap_err().to_string();
        assert!(
            unknown.starts_with("no operation is named \"mmap_\" (did you mean mmap"),
            "{unknown}"
        );
        let unknown = of(&["zzz"]).unwrap_err().to_string();
        assert!(unknown.ends_with("; to list all: knee commute cost --list"), "{unknown}");
        let missing = operations(&["open".to_owned()], &["mmap"]).unwrap_err().to_string();
        assert!(missing.contains("no operation \"open\"; the operations are mmap"), "{missing}");
    }
}
