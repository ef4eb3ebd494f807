//! Traces of testcases in guests.

use std::ops::ControlFlow;

use knee_agent::{CostRequest, Experiment, Operation};
use knee_host::number::plural;
use knee_predict::simulate::Workload;
use knee_results::Mode;
use knee_trace::{Emulator, End, GuestKernel, GuestOptions, WARM_UP, cost};

use super::workload::{APART, workload};
use crate::exit::{ExitStatus, failed};
use crate::input::kernel::{mode_of_tasks, warn_of_missing};
use crate::progress::{Amount, Progress};
use crate::stderr::tell;

/// Virtual CPUs of the guest.
const CPUS: u32 = 4;
/// Memory nodes of the guest, each with an equal share of the CPUs. Two show which data exist once
/// for each node.
pub(super) const NODES: u32 = 2;
/// Memory of the guest in MiB. Some limits of the kernel grow with the memory of each CPU. With 1
/// GiB, for example, Linux takes a global lock to account for 128 MB, which no server does.
const MEMORY: u32 = GuestOptions::MOST_MEMORY;

/// What to trace.
pub(super) struct Request<'a> {
    pub(super) testcases: &'a [&'static Operation],
    pub(super) mode: Mode,
    /// Traced iterations of each CPU. knee traces more if a testcase does some of its work less often.
    pub(super) rounds: u32,
    pub(super) emulator: &'a Emulator,
}

/// Traces the testcases in a guest with this kernel. The workloads have the order of the testcases.
pub(super) fn trace(kernel: &GuestKernel, request: &Request<'_>) -> anyhow::Result<Vec<Workload>> {
    let Request { testcases, mode, rounds, emulator } = request;
    let options = GuestOptions {
        emulator: (*emulator).clone(),
        cpus: CPUS,
        nodes: NODES,
        memory: MEMORY,
        ..GuestOptions::default()
    };
    let experiment =
        |operation: &&Operation| Experiment { operation: operation.name.to_owned(), cpus: CPUS };
    let period = testcases.iter().map(|testcase| testcase.period).max().unwrap_or(1);
    let experiments = CostRequest {
        experiments: testcases.iter().map(experiment).collect(),
        mode: mode_of_tasks(*mode),
        rounds: WARM_UP + rounds.next_multiple_of(period),
    };
    tell!("knee: tracing {} on {kernel}", plural(testcases.len(), "testcase"));
    let of = testcases.len() as u64;
    let (mut traced, mut progress, mut warned) = (Vec::new(), Progress::new(false), false);
    let mut refusal = None;
    let end = cost(kernel, &experiments, &options, |made, functions| {
        if let GuestKernel::Linux(kernel) = kernel {
            warn_of_missing(&mut warned, kernel, functions);
        }
        let contention = made.contention(WARM_UP, APART, functions);
        match workload(&contention, CPUS / NODES, functions) {
            Ok(workload) => traced.push((made.experiment.operation.clone(), workload)),
            Err(error) => {
                refusal = Some(error.context(format!("{} on {kernel}", made.experiment.operation)));
                return ControlFlow::Break(());
            }
        }
        let amount = Amount { done: traced.len() as u64, of, unit: "testcases" };
        progress.show(&amount, || made.experiment.operation.clone());
        ControlFlow::Continue(())
    })?;
    drop(progress);
    if let Some(refusal) = refusal {
        return Err(refusal);
    }
    let take = |operation: &&Operation| {
        let at = traced.iter().position(|(name, _)| name == operation.name)?;
        Some(traced.swap_remove(at).1)
    };
    let workloads: Option<Vec<Workload>> = testcases.iter().map(take).collect();
    workloads.ok_or_else(|| {
        let why = match end {
            End::PoweredOff => "it reported too few results".to_owned(),
            end => end.to_string(),
        };
        failed(
            ExitStatus::TestcaseDied,
            format!("{kernel}: the guest ended before it had run every testcase: {why}"),
        )
    })
}
