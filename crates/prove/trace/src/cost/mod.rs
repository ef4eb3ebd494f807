//! Measures the cost of operations in a guest, by many repetitions on several virtual CPUs.

mod contention;
mod figures;
mod names;

use std::collections::{BTreeMap, VecDeque};
use std::ops::ControlFlow;

use knee_agent::{CONSOLE, COST, CostRequest, EXPERIMENT, Experiment, Made, Mode};
use knee_operations::trials::Kind;

pub use contention::{
    Contention, ContentionEvent, EventKind, Hold, Iteration, Lock, LockKind, LockSections, Scope,
    SharedLine, VISIT_DISTANCE, Visit,
};
pub use figures::{Figures, HotLine, Spread};
pub(crate) use names::Data;

use crate::calibration::Calibration;
use crate::channel::Channel;
use crate::check::CheckError;
use crate::datum::Datum;
use crate::error::GuestError;
use crate::functions::Functions;
use crate::guest::{End, Event, Guest, GuestOptions};
use crate::guest_kernel::{GuestKernel, Names};
use crate::initramfs::Initramfs;
use crate::process::Tracing;
use crate::record::{Record, Side, TestResult};
use crate::results::Results;

/// Maximum number of guests that try one experiment, if each guest ends before completing it.
const ATTEMPTS: u32 = 3;
/// Maximum number of batches of deferred work in an experiment. Linux runs up to ten RCU callbacks in a
/// batch, and each operation queues a few.
const MOST_BATCHES: usize = 1 << 16;
/// The number of warm-up rounds, which do not count. They fill the per-CPU caches, which the kernel refills
/// from global lists about ten entries at a time.
pub const WARM_UP: u32 = 16;

/// The results of an experiment.
#[derive(Debug, Clone)]
pub struct Cost {
    /// The operation, and the number of CPUs that performed it.
    pub experiment: Experiment,
    /// The results of the individual operations: round by round, and in each round in the order of
    /// the CPUs.
    pub operations: Vec<TestResult>,
    /// Batches of work that the operations deferred: RCU callbacks, which run after a grace period. Each
    /// batch contains the callbacks that a CPU ran one after the other.
    pub deferred: Vec<TestResult>,
    /// The data in the lines that moved, by the lines' physical addresses.
    pub data: BTreeMap<u64, Datum>,
    /// The data in the words of these lines that the operations accessed atomically, by the words' physical
    /// addresses.
    pub words: BTreeMap<u64, Datum>,
    /// The CPUs of each memory node of the guest; bit n is set for CPU n.
    pub nodes: Vec<u64>,
}

/// Runs the experiments of a request in a guest with this kernel, and calls `report` for each. `options` must
/// give the guest as many CPUs as the largest experiment needs. If the guest ends early, another guest runs
/// the rest. Gives up when three guests have ended during the same experiment. Returns how the last guest
/// ended. If `report` returns `Break`, the guest is killed, and the returned [`End`] has no meaning.
pub fn cost(
    kernel: &GuestKernel,
    request: &CostRequest,
    options: &GuestOptions,
    mut report: impl FnMut(Cost, &Functions) -> ControlFlow<()>,
) -> Result<End, CheckError> {
    let mut options = options.clone();
    options.tracing =
        Some(Tracing { accesses: true, pause: true, ..options.tracing.unwrap_or_default() });
    // The addresses of mappings determine which mappings share a tree node, and thus which lines move. So put
    // mappings at the same addresses in each guest.
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
    kernel: &GuestKernel,
    rest: &mut CostRequest,
    options: &GuestOptions,
    report: &mut impl FnMut(Cost, &Functions) -> ControlFlow<()>,
) -> Result<End, CheckError> {
    let (mut guest, channel, mut calibration) = start(kernel, rest, options)?;
    guest.begin_step();
    let mut names = Names::of(kernel);
    let mut functions = Functions::default();
    let mut is_up = false;
    // While knee waits for the last results of an experiment, the guest may complete the next experiment.
    let largest = rest.experiments.iter().map(|experiment| experiment.cpus).max().unwrap_or(0);
    let mut results = Results::with_room_for(2 * largest as usize * rest.rounds as usize);
    let mut waiting: VecDeque<Made> = VecDeque::new();
    let mut deferred: Vec<TestResult> = Vec::new();
    // The names of the data that moved, keyed by the number of the test after which the guest paused.
    let mut data: BTreeMap<u64, Data> = BTreeMap::new();
    let rounds = u64::from(rest.rounds);
    // The number of an experiment's last test, which runs after the operations and pauses the guest.
    let last = |made: &Made| {
        made.first.saturating_add(u64::from(made.experiment.cpus).saturating_mul(rounds))
    };
    let mut end = End::Died("it printed nothing".to_owned());
    while let Some(event) = guest.next_event()? {
        match event {
            Event::Console(line) => {
                if let Some((_, message)) = line.split_once(CONSOLE) {
                    return Err(CheckError::Agent(message.to_owned()));
                }
                names.learn(&line);
                // The firmware and the kernel also write to the console, and not always whole lines.
                let Some((_, message)) = line.split_once(EXPERIMENT) else { continue };
                match serde_json::from_str(message) {
                    Ok(Made { failed: Some(why), experiment, .. }) => {
                        return Err(CheckError::Agent(format!("{}: {why}", experiment.operation)));
                    }
                    Ok(made) if is_requested(&made, &waiting, &rest.experiments) => {
                        waiting.push_back(made);
                    }
                    Ok(_) => {
                        let why = "it reports an experiment that was not requested";
                        return Err(CheckError::Agent(why.to_owned()));
                    }
                    Err(_) => return Err(CheckError::Agent(message.to_owned())),
                }
            }
            Event::Result(Record::Header(_)) => {
                functions = names.functions(channel.as_ref(), guest.ram())?;
                is_up = true;
            }
            Event::Result(Record::Test(result)) if !calibration.is_over() => {
                if result.is_awaited() {
                    guest.resume()?;
                }
                let added = calibration.add(&result);
                added.map_err(|fault| CheckError::uncalibrated(&options.emulator, fault))?;
            }
            Event::Result(Record::Test(result)) => {
                if let (Some(names), false) = (names.of_data(), result.is_conflict_free()) {
                    let begin = data.last_key_value().map_or(0, |(last, _)| last + 1);
                    let of = || results.since(begin).chain(deferred.iter());
                    data.insert(result.test, Data::of(of, |conflict| names.datum(conflict)));
                }
                if result.is_awaited() {
                    guest.resume()?;
                }
                guest.begin_step();
                results.add(result)?;
            }
            Event::Result(Record::Deferred(work)) if calibration.is_over() => {
                if deferred.len() == MOST_BATCHES {
                    return Err(GuestError::TooMany("batches of deferred work").into());
                }
                deferred.push(work);
            }
            Event::Result(_) => {}
            Event::End(how) => end = how,
        }
        while let Some(made) = waiting.front()
            && let Some(mut operations) = results.take(made.first..last(made).saturating_add(1))
        {
            let Some(made) = waiting.pop_front() else { break };
            operations.pop();
            let Data { lines: data, words } = data.get(&last(&made)).cloned().unwrap_or_default();
            rest.experiments.retain(|experiment| *experiment != made.experiment);
            let nodes = options.node_cpus();
            // Work that ended before the first operation belongs to the set-up.
            let (mut own, later): (Vec<TestResult>, Vec<TestResult>) =
                deferred.into_iter().partition(|work| work.test <= last(&made));
            deferred = later;
            own.retain(|work| work.test > made.first && !work.is_incomplete());
            number_cpus(made.experiment.cpus, &mut operations, &mut own);
            let experiment = made.experiment;
            let cost = Cost { experiment, operations, deferred: own, data, words, nodes };
            if report(cost, &functions).is_break() {
                rest.experiments.clear();
                return Ok(end);
            }
        }
    }
    match kernel {
        GuestKernel::Knee(kernel) if !is_up => {
            Err(CheckError::NoAnswer { path: kernel.path().to_owned(), end })
        }
        _ => Ok(end),
    }
}

/// Whether a guest may report this experiment: it is one of the `rest`, and not one of those that it has reported and that
/// are still `waiting` for results.
fn is_requested(made: &Made, waiting: &VecDeque<Made>, rest: &[Experiment]) -> bool {
    rest.contains(&made.experiment)
        && !waiting.iter().any(|before| before.experiment == made.experiment)
}

/// Numbers the CPUs of an experiment as the guest does, and removes the deferred work of other CPUs. The plugin
/// numbers CPUs in the order in which they first appear (since QEMU 9.0). The tasks of an experiment take turns
/// in the order of their CPUs.
fn number_cpus(cpus: u32, operations: &mut [TestResult], deferred: &mut Vec<TestResult>) {
    let numbered = operations.iter().zip((0..cpus).cycle());
    let numbers: BTreeMap<u32, u32> =
        numbered.filter_map(|(done, cpu)| Some((done.sides.first()?.cpu, cpu))).collect();
    let is_of_task = |side: &Side| numbers.contains_key(&side.cpu);
    deferred.retain(|work| work.sides.first().is_some_and(is_of_task));
    for side in operations.iter_mut().chain(deferred).flat_map(|done| &mut done.sides) {
        side.cpu = numbers.get(&side.cpu).copied().unwrap_or(side.cpu);
    }
}

/// Starts a guest that runs the experiments. Returns the channel over which Linux sends its symbols.
fn start(
    kernel: &GuestKernel,
    request: &CostRequest,
    options: &GuestOptions,
) -> Result<(Guest, Option<Channel>, Calibration), CheckError> {
    let most = request.experiments.iter().map(|experiment| experiment.cpus).max().unwrap_or(0);
    match kernel {
        GuestKernel::Linux(kernel) => {
            let request = serde_json::to_vec(request).expect("plain data can be written as JSON");
            let files = Initramfs::new()
                .file("init", 0o755, knee_artefacts::AGENT)
                .file(COST, 0o644, &request)
                .finish();
            let channel = Channel::new(&[])?;
            let options = GuestOptions { channel: Some(channel.ram()), ..options.clone() };
            let guest = Guest::start(kernel, &files, &options)?;
            Ok((guest, Some(channel), Calibration::of(most)))
        }
        GuestKernel::Knee(kernel) => {
            let guest = Guest::start_knee(kernel, &parameters(request), &[], options)?;
            Ok((guest, None, Calibration::of_kinds(&Kind::WITHOUT_FILES, most)))
        }
    }
}

/// The parameters of knee's own kernel for a request.
fn parameters(request: &CostRequest) -> String {
    let experiment = |one: &Experiment| format!("{}:{}", one.operation, one.cpus);
    let experiments: Vec<String> = request.experiments.iter().map(experiment).collect();
    let mode = match request.mode {
        Mode::Threads => "threads",
        Mode::Processes => "processes",
    };
    format!("cost={} mode={mode} rounds={}", experiments.join(","), request.rounds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guest_reports_each_requested_experiment_once() {
        let experiment = |cpus| Experiment { operation: "mmap".to_owned(), cpus };
        let made = |cpus| Made { experiment: experiment(cpus), first: 0, failed: None };
        let rest = [experiment(1), experiment(4)];
        let is_requested = |cpus| is_requested(&made(cpus), &VecDeque::from([made(1)]), &rest);
        assert_eq!([4, 1, u32::MAX].map(is_requested), [true, false, false]);
    }

    #[test]
    fn the_parameters_of_knees_kernel_list_the_experiments() {
        let experiment = |cpus| Experiment { operation: "mmap".to_owned(), cpus };
        let experiments = vec![experiment(1), experiment(4)];
        let request = CostRequest { experiments, mode: Mode::Processes, rounds: 48 };
        assert_eq!(parameters(&request), "cost=mmap:1,mmap:4 mode=processes rounds=48");
    }
}
