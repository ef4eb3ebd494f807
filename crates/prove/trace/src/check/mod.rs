//! Runs tests in guests, and reports what the calls returned and which cache lines they shared.
//!
//! The tests are divided into batches, at most one for each CPU of this machine. The batches run at the
//! same time, each in its own guest. If a guest panics, hangs, resets itself or dies, this is the
//! outcome of its current test, and the rest of the batch runs in a new guest.

mod batch;
mod checked;
mod error;
mod repetition;
mod session;

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::sync_channel;
use std::thread;

use knee_agent::{Outcome, plan};
use knee_commute::Test;

use crate::functions::Functions;
use crate::guest::GuestOptions;
use crate::guest_kernel::GuestKernel;
use crate::knee_kernel::KneeKernel;
use crate::modules::module;
use batch::run_batch;
pub use checked::Checked;
pub use error::CheckError;
pub use session::CheckOptions;
use session::{GuestSession, Job, Next};

/// If there are more than this many tests per guest and a CPU is free, knee boots another guest: a boot takes
/// as long as several hundred tests.
const TESTS_PER_GUEST: usize = 300;
/// Name of the kernel module with which the agent writes model-specific registers; see `apart.rs` of
/// crate knee-agent.
const MSR_DRIVER: &str = "msr";
/// Maximum number of completed tests in the channel from the batches to the thread that calls `report`.
const MAX_WAITING: usize = 1000;

/// Runs `tests`, each a line of JSON, in guests with this kernel. Calls `report` for each test, in
/// the order of the lines, until `report` returns `Break`.
pub fn check(
    kernel: &GuestKernel,
    tests: &[u8],
    options: &CheckOptions,
    mut report: impl FnMut(Checked, &Functions) -> ControlFlow<()>,
) -> Result<(), CheckError> {
    let (mut jobs, mut waiting) = (Vec::new(), BTreeMap::new());
    let no_functions = Arc::new(Functions::default());
    let lines = (1..).zip(tests.split(|byte| *byte == b'\n'));
    for (nr, (number, line)) in lines.filter(|(_, line)| !line.is_empty()).enumerate() {
        let no_test = |source| CheckError::NoTest { line: number, source };
        let test: Test = serde_json::from_slice(line).map_err(no_test)?;
        match missing(kernel, &test).map_or_else(|| plan(&test, false), Err) {
            Ok(plan) => jobs.push(Job { nr, test, plan }),
            Err(why) => {
                let checked = Checked::unobserved(test.id, Ok(Outcome::NotRun(why)));
                waiting.insert(nr, (checked, no_functions.clone()));
            }
        }
    }
    // Each call of a test runs on a CPU of its own, and each process executes its steps on a CPU of its own.
    let cpus = |job: &Job| job.plan.calls.len().max(job.plan.processes());
    let most = jobs.iter().map(cpus).max().unwrap_or(0) as u32;
    let mut options = options.clone();
    options.guest.cpus = options.guest.cpus.max(most);
    let options = &options;
    let msr = msr_module(kernel);
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let (sender, receiver) = sync_channel(MAX_WAITING);
        let threads = batches(jobs).into_iter().map(|batch| {
            let (done, msr, stop) = (sender.clone(), msr.as_deref(), &stop);
            scope.spawn(move || run_batch(kernel, batch, options, msr, &done, stop))
        });
        let threads: Vec<_> = threads.collect();
        drop(sender);
        let mut next = 0;
        let mut stopped = false;
        loop {
            while let Some((checked, functions)) = waiting.remove(&next) {
                next += 1;
                stopped = stopped || report(checked, &functions).is_break();
            }
            if stopped {
                break;
            }
            let Ok((nr, checked, functions)) = receiver.recv() else { break };
            waiting.insert(nr, (checked, functions));
        }
        // Now each batch ends and kills its guest. A batch that waits for room in the channel notices that
        // there is no receiver.
        stop.store(true, Ordering::Relaxed);
        drop(receiver);
        let ends = threads.into_iter().map(|thread| match thread.join() {
            Ok(end) => end,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        ends.collect()
    })
}

/// Why the kernel cannot run a test, if one of the test's calls is missing from the kernel.
fn missing(kernel: &GuestKernel, test: &Test) -> Option<String> {
    let GuestKernel::Knee(_) = kernel else { return None };
    let mut operations = test.calls.iter().map(|call| call.operation.as_str());
    let missing = operations.find(|name| !KneeKernel::CALLS.contains(name))?;
    Some(format!("knee's kernel does not have the call {missing}"))
}

/// Divides the tests into batches for the guests that run at the same time.
fn batches(jobs: Vec<Job>) -> Vec<Vec<Job>> {
    let cpus = thread::available_parallelism().map_or(1, |cpus| cpus.get());
    let guests = cpus.min(jobs.len().div_ceil(TESTS_PER_GUEST)).max(1);
    let mut batches: Vec<Vec<Job>> = (0..guests).map(|_| Vec::new()).collect();
    for (at, job) in jobs.into_iter().enumerate() {
        batches[at % guests].push(job);
    }
    batches
}

/// The module of the MSR driver; `None` if the module cannot be read, perhaps because the driver is
/// built in. Without the driver, tests take longer but have the same results.
fn msr_module(kernel: &GuestKernel) -> Option<Vec<u8>> {
    match kernel {
        GuestKernel::Linux(kernel) => module(kernel, MSR_DRIVER).unwrap_or_default(),
        GuestKernel::Knee(_) => None,
    }
}

/// Boots a guest with this kernel, and checks that its QEMU reports exactly what CPUs share. Each
/// guest of [`check()`] and [`cost`](fn@crate::cost) begins with the same trials.
///
/// # Errors
/// [`CheckError::Calibration`] if QEMU's reports are wrong. Other errors if the guest cannot be
/// started.
pub fn calibrate(kernel: &GuestKernel, guest: &GuestOptions) -> Result<(), CheckError> {
    let options = CheckOptions { guest: guest.clone(), ..CheckOptions::default() };
    let msr = msr_module(kernel);
    let mut session = GuestSession::start(kernel, &[], &options, msr.as_deref())?;
    loop {
        match session.next(&AtomicBool::new(false))? {
            Next::End(_) if session.is_calibrated() => return Ok(()),
            Next::End(end) => return Err(CheckError::NotUp(end)),
            Next::Checked(..) | Next::Stopped => {}
        }
    }
}
