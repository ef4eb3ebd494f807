//! What an operation costs: tasks on virtual CPUs of their own do it in turn, each with arguments of
//! its own, and the plugin watches.
//!
//! An experiment is one operation and a number of CPUs. It has processes of its own, so that what
//! another experiment has left behind is not in its address space. Its tasks have turns, in the order
//! of their CPUs: in the first one a task sets up what is its own, in all others it does the
//! operation once. While one has its turn the others sleep, their CPUs are idle, and all that the
//! plugin sees is the operation. So figures do not depend on the order in which tasks arrive.

mod operations;
mod own;
mod task;
mod turns;

use std::fs::{self, File};
use std::io::{self, Write};
use std::sync::Arc;

use knee_marks::Mark;
use serde::{Deserialize, Serialize};

pub use operations::{OPERATIONS, Operation};

use crate::calibration;
use crate::fault;
use crate::workers::pin;
use task::Task;
use turns::Turns;

/// The file in the guest's first file system that has the request, if costs are to be taken and no
/// tests run.
pub const COST: &str = "cost.json";
/// What begins a line on the console that has an experiment, as [`Made`] in JSON.
pub const EXPERIMENT: &str = "knee-cost: ";

/// What tasks share.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Address space and descriptors.
    #[default]
    Threads,
    /// Neither.
    Processes,
}

/// What to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CostRequest {
    /// The experiments.
    pub experiments: Vec<Experiment>,
    /// What tasks share.
    pub mode: Mode,
    /// How often each task does the operation.
    pub rounds: u32,
}

/// One operation on a number of CPUs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Experiment {
    /// The name of the operation, in [`OPERATIONS`].
    pub operation: String,
    /// How many CPUs do it; the guest has to have them.
    pub cpus: u32,
}

/// An experiment that has been made, a line on the console.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Made {
    /// The experiment.
    pub experiment: Experiment,
    /// How many of the plugin's tests belong to earlier experiments. It has one for each time
    /// that a task did the operation, round by round, and a last one with two sides, after which the
    /// guest pauses.
    pub first: u64,
    /// Why it failed, if it did. No experiment follows it then.
    pub failed: Option<String>,
}

/// The request for costs, if there is one.
pub(crate) fn request() -> io::Result<Option<CostRequest>> {
    match fs::read(format!("/{COST}")) {
        Ok(request) => Ok(Some(serde_json::from_slice(&request)?)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Makes the experiments of a request, in the working directory, which has to be empty.
pub(crate) fn run(request: &CostRequest) -> io::Result<()> {
    fault::install();
    // A new process begins where its parent is, and leaves the CPU in its address space's mask: CPUs
    // that may have pages of it in their TLB.
    pin(0);
    Mark::Arm.emit();
    std::thread::yield_now();
    let most = request.experiments.iter().map(|experiment| experiment.cpus).max().unwrap_or(0);
    let mut first = calibration::run(most as usize)?;
    let turns = Turns::new(most as usize)?;
    for experiment in &request.experiments {
        let turns = turns.again(experiment.cpus as usize);
        let failed = make(experiment, request.mode, request.rounds, turns)?;
        let last = failed.is_some();
        let tests = u64::from(experiment.cpus) * u64::from(request.rounds) + 1;
        let made = Made { experiment: experiment.clone(), first, failed };
        writeln!(io::stdout(), "{EXPERIMENT}{}", serde_json::to_string(&made)?)?;
        if last {
            // The number of tests that have begun is unknown.
            break;
        }
        first += tests;
        for file in fs::read_dir(".")? {
            fs::remove_file(file?.path())?;
        }
    }
    Ok(())
}

/// Makes an experiment. Returns why it failed, if it did.
fn make(
    experiment: &Experiment,
    mode: Mode,
    rounds: u32,
    turns: Turns,
) -> io::Result<Option<String>> {
    let Experiment { operation, cpus } = experiment;
    let cpus = *cpus as usize;
    let Some(operation) = OPERATIONS.iter().find(|known| known.name == *operation) else {
        return Ok(Some(format!("the agent has no operation {operation}")));
    };
    // What the CPUs have of memory that others have given back is not theirs.
    Mark::Flush.emit();
    fs::write("shared", [7; 4096])?;
    let shared = Arc::new(File::open("shared")?);
    let neighbours = if mode == Mode::Threads { cpus } else { 1 };
    let task = |nr| Task { operation, nr, neighbours, turns, rounds, shared: Arc::clone(&shared) };
    let children: Vec<libc::pid_t> = match mode {
        Mode::Processes => {
            (0..cpus).map(|nr| fork(|| task(nr).run())).collect::<io::Result<_>>()?
        }
        Mode::Threads => vec![fork(|| {
            std::thread::scope(|scope| {
                for nr in 1..cpus {
                    let task = task(nr);
                    scope.spawn(move || task.run());
                }
                task(0).run();
            })
        })?],
    };
    let mut ended_well = true;
    for child in children {
        let mut status = 0;
        // SAFETY: a child of this process, and a place for its status.
        unsafe { libc::waitpid(child, &raw mut status, 0) };
        ended_well &= status == 0;
    }
    Ok(match turns.failure() {
        Some((what, errno)) => {
            Some(format!("cannot {what}: {}", io::Error::from_raw_os_error(errno)))
        }
        None if !ended_well => Some("a task of the agent was killed".to_owned()),
        None => None,
    })
}

/// Runs `child` in a process of its own.
fn fork(child: impl FnOnce()) -> io::Result<libc::pid_t> {
    // SAFETY: this process has one thread.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            child();
            // SAFETY: it ends the process, without what is meant for the parent.
            unsafe { libc::_exit(0) }
        }
        id => Ok(id),
    }
}
