//! What operations cost in a guest: what each of many repetitions on several virtual CPUs did.

mod figures;
mod names;

use std::collections::{BTreeMap, VecDeque};
use std::ops::ControlFlow;

use knee_agent::{CONSOLE, COST, CostRequest, EXPERIMENT, Experiment, Made};

pub use figures::{Figures, HotLine, Spread};

use crate::calibration::Calibration;
use crate::channel::Channel;
use crate::check::CheckError;
use crate::datum::{Datum, Resolver};
use crate::functions::Functions;
use crate::guest::{End, Event, Guest, GuestOptions};
use crate::initramfs::Initramfs;
use crate::kernel::Kernel;
use crate::process::Tracing;
use crate::record::{Record, TestResult};
use crate::results::Results;

/// Guests that are started for an experiment whose guest ends: a kernel may have an accident.
const ATTEMPTS: u32 = 3;

/// An experiment that has been made.
#[derive(Debug, Clone)]
pub struct Cost {
    /// The operation, and on how many CPUs it was done.
    pub experiment: Experiment,
    /// Each time that it was done: round by round, in each the CPUs in their order.
    pub operations: Vec<TestResult>,
    /// What the kernel has in the lines that moved, by the lines' physical addresses.
    pub data: BTreeMap<u64, Datum>,
}

/// Makes the experiments of a request in a guest with this kernel and at least as many CPUs as any
/// of them needs, and reports each. If the guest ends early, another one makes the rest. Returns how the
/// guest ended: after all experiments, after one that failed three times, or after `report` broke.
pub fn cost(
    kernel: &Kernel,
    request: &CostRequest,
    options: &GuestOptions,
    mut report: impl FnMut(Cost, &Functions) -> ControlFlow<()>,
) -> Result<End, CheckError> {
    let mut options = options.clone();
    options.tracing =
        Some(Tracing { moves: true, pause: true, ..options.tracing.unwrap_or_default() });
    // Where maps are is the same each time: what is in which node of a tree depends on it.
    options.parameters.push("norandmaps".to_owned());
    let mut rest = request.clone();
    let mut attempts = 0;
    loop {
        let before = rest.experiments.len();
        let end = guest(kernel, &mut rest, &options, &mut report)?;
        attempts = if rest.experiments.len() < before { 1 } else { attempts + 1 };
        if rest.experiments.is_empty() || attempts == ATTEMPTS {
            return Ok(end);
        }
    }
}

/// Makes experiments in one guest, and removes them from the request; if `report` breaks, removes all.
fn guest(
    kernel: &Kernel,
    rest: &mut CostRequest,
    options: &GuestOptions,
    report: &mut impl FnMut(Cost, &Functions) -> ControlFlow<()>,
) -> Result<End, CheckError> {
    let files = Initramfs::new()
        .file("init", 0o755, knee_artefacts::AGENT)
        .file(COST, 0o644, &serde_json::to_vec(rest).expect("plain data has a form in JSON"))
        .finish();
    // It has no plans; the kernel's symbols come through it.
    let channel = Channel::new(&[])?;
    let options = GuestOptions { channel: Some(channel.ram()), ..options.clone() };
    let mut guest = Guest::start(kernel, &files, &options)?;
    let mut functions = Functions::default();
    // From when the kernel's symbols are known.
    let mut resolver = None;
    let mut results = Results::default();
    let mut waiting: VecDeque<Made> = VecDeque::new();
    // By the test after which the guest was paused.
    let mut data: BTreeMap<u64, BTreeMap<u64, Datum>> = BTreeMap::new();
    let rounds = u64::from(rest.rounds);
    let most = rest.experiments.iter().map(|experiment| experiment.cpus).max().unwrap_or(0);
    let mut calibration = Calibration::of(most);
    // The guest pauses after one more test.
    let last = |made: &Made| made.first + u64::from(made.experiment.cpus) * rounds;
    let mut end = End::Died("it printed nothing".to_owned());
    while let Some(event) = guest.next_event()? {
        match event {
            Event::Console(line) => {
                if let Some((_, said)) = line.split_once(CONSOLE) {
                    return Err(CheckError::Agent(said.to_owned()));
                }
                // Firmware and kernel write there as well, and not always whole lines.
                let Some((_, said)) = line.split_once(EXPERIMENT) else { continue };
                match serde_json::from_str(said) {
                    Ok(Made { failed: Some(why), experiment, .. }) => {
                        return Err(CheckError::Agent(format!("{}: {why}", experiment.operation)));
                    }
                    Ok(made) => waiting.push_back(made),
                    Err(_) => return Err(CheckError::Agent(said.to_owned())),
                }
            }
            Event::Result(Record::Header(_)) => {
                let symbols = channel.kallsyms()?;
                let names = Resolver::new(guest.ram().clone(), &symbols);
                functions = Functions::of(&symbols, &names);
                resolver = Some(names);
            }
            Event::Result(Record::Test(result)) if !calibration.is_over() => {
                if result.is_awaited() {
                    guest.resume()?;
                }
                let added = calibration.add(&result);
                added.map_err(|fault| CheckError::uncalibrated(&options.emulator, fault))?;
            }
            Event::Result(Record::Test(result)) => {
                if let (Some(resolver), false) = (&mut resolver, result.is_conflict_free()) {
                    let begin = data.last_key_value().map_or(0, |(last, _)| last + 1);
                    data.insert(result.test, names::of_lines(results.since(begin), resolver));
                }
                if result.is_awaited() {
                    guest.resume()?;
                }
                results.add(result);
            }
            Event::Result(_) => {}
            Event::End(how) => end = how,
        }
        while let Some(made) = waiting.front()
            && let Some(mut operations) = results.take(made.first..last(made) + 1)
        {
            let Some(made) = waiting.pop_front() else { break };
            operations.pop();
            let data = data.get(&last(&made)).cloned().unwrap_or_default();
            rest.experiments.retain(|experiment| *experiment != made.experiment);
            let cost = Cost { experiment: made.experiment, operations, data };
            if report(cost, &functions).is_break() {
                rest.experiments.clear();
                return Ok(end);
            }
        }
    }
    Ok(end)
}
