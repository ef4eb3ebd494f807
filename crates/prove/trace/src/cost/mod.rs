//! Measures the cost of operations in a guest, by many repetitions on several virtual CPUs.

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

/// Maximum number of guests that try one experiment, if each guest ends before completing it.
const ATTEMPTS: u32 = 3;

/// The results of an experiment.
#[derive(Debug, Clone)]
pub struct Cost {
    /// The operation, and the number of CPUs that performed it.
    pub experiment: Experiment,
    /// The results of the individual operations: round by round, and in each round in the order of
    /// the CPUs.
    pub operations: Vec<TestResult>,
    /// The data in the lines that moved, by the lines' physical addresses.
    pub data: BTreeMap<u64, Datum>,
}

/// Runs the experiments of a request in a guest with this kernel, and calls `report` for each. `options` must
/// give the guest as many CPUs as the largest experiment needs. If the guest ends early, another guest runs
/// the rest. Gives up when three guests have ended during the same experiment. Returns how the last guest
/// ended. If `report` returns `Break`, the guest is killed, and the returned [`End`] has no meaning.
pub fn cost(
    kernel: &Kernel,
    request: &CostRequest,
    options: &GuestOptions,
    mut report: impl FnMut(Cost, &Functions) -> ControlFlow<()>,
) -> Result<End, CheckError> {
    let mut options = options.clone();
    options.tracing =
        Some(Tracing { moves: true, pause: true, ..options.tracing.unwrap_or_default() });
    // Put mappings at the same addresses each time, because the addresses determine which mappings
    // share a tree node.
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

/// Runs experiments in one guest, and removes each completed experiment from the request. If
/// `report` returns `Break`, removes all experiments.
fn guest(
    kernel: &Kernel,
    rest: &mut CostRequest,
    options: &GuestOptions,
    report: &mut impl FnMut(Cost, &Functions) -> ControlFlow<()>,
) -> Result<End, CheckError> {
    let files = Initramfs::new()
        .file("init", 0o755, knee_artefacts::AGENT)
        .file(COST, 0o644, &serde_json::to_vec(rest).expect("plain data can be written as JSON"))
        .finish();
    // The channel contains no plans. It only transfers the kernel's symbols.
    let channel = Channel::new(&[])?;
    let options = GuestOptions { channel: Some(channel.ram()), ..options.clone() };
    let mut guest = Guest::start(kernel, &files, &options)?;
    let mut functions = Functions::default();
    // Set once the kernel's symbols are known.
    let mut resolver = None;
    let mut results = Results::default();
    let mut waiting: VecDeque<Made> = VecDeque::new();
    // The data in the lines that moved, by the number of the test after which the guest paused.
    let mut data: BTreeMap<u64, BTreeMap<u64, Datum>> = BTreeMap::new();
    let rounds = u64::from(rest.rounds);
    let most = rest.experiments.iter().map(|experiment| experiment.cpus).max().unwrap_or(0);
    let mut calibration = Calibration::of(most);
    // The number of an experiment's last test. This test follows the operations and pauses the
    // guest.
    let last = |made: &Made| made.first + u64::from(made.experiment.cpus) * rounds;
    let mut end = End::Died("it printed nothing".to_owned());
    while let Some(event) = guest.next_event()? {
        match event {
            Event::Console(line) => {
                if let Some((_, message)) = line.split_once(CONSOLE) {
                    return Err(CheckError::Agent(message.to_owned()));
                }
                // The firmware and the kernel also write to the console, and not always whole lines.
                let Some((_, message)) = line.split_once(EXPERIMENT) else { continue };
                match serde_json::from_str(message) {
                    Ok(Made { failed: Some(why), experiment, .. }) => {
                        return Err(CheckError::Agent(format!("{}: {why}", experiment.operation)));
                    }
                    Ok(made) => waiting.push_back(made),
                    Err(_) => return Err(CheckError::Agent(message.to_owned())),
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
