//! Measures the cost of an operation. Tasks do the operation in turn, each on its own virtual CPU
//! and with its own arguments, and the plugin traces the tasks.
//!
//! An experiment measures one operation on a given number of CPUs. Each experiment starts new processes, so
//! that their address spaces contain nothing from earlier experiments. The tasks take turns in the order of
//! their CPUs, so the figures do not depend on the order in which tasks arrive. In its first turn, a task
//! sets up its own objects; in every later turn but the last, it does the operation once. Meanwhile the other
//! tasks sleep, their CPUs are idle, and the plugin sees only the operation.

mod linux;
mod operations;
mod own;
mod region;
mod task;
mod testcases;
mod turns;

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;

use knee_marks::Mark;
use serde::{Deserialize, Serialize};

pub use knee_operations::EXPERIMENT;
pub use operations::{operations, testcases};
pub use own::Operation;

use crate::calibration;
use crate::fault;
use crate::layout::PAGE;
use crate::workers::pin;
use own::Own;
use task::Task;
use turns::Turns;

/// The path of the request file, relative to the root of the initramfs. If the file exists, the agent
/// measures costs and runs no tests.
pub const COST: &str = "cost.json";

/// The resources that tasks share.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// The tasks share an address space and descriptors.
    #[default]
    Threads,
    /// The tasks share neither an address space nor descriptors.
    Processes,
}

/// A request for experiments.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CostRequest {
    /// The experiments.
    pub experiments: Vec<Experiment>,
    /// The resources that tasks share.
    pub mode: Mode,
    /// The number of times that each task does the operation.
    pub rounds: u32,
}

/// One operation on a number of CPUs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Experiment {
    /// The name of one of the [`operations`].
    pub operation: String,
    /// The number of CPUs that do the operation. The guest must have at least this many CPUs.
    pub cpus: u32,
}

/// The report of an experiment, which is one line on the console.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Made {
    /// The experiment.
    pub experiment: Experiment,
    /// The number of tests that the plugin had counted when the experiment began. The plugin counts one test
    /// each time that a task does the operation. The tests of a round precede the tests of the next round.
    /// The last test of the experiment has two sides, and the guest pauses after it.
    pub first: u64,
    /// The reason why the experiment failed, if it did. No experiment follows a failed one.
    pub failed: Option<String>,
}

/// Returns the request for experiments, if the host has sent one.
pub(crate) fn request() -> io::Result<Option<CostRequest>> {
    match fs::read(format!("/{COST}")) {
        Ok(request) => Ok(Some(serde_json::from_slice(&request)?)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Runs the experiments of a request in the working directory, which must be empty.
pub(crate) fn run(request: &CostRequest) -> io::Result<()> {
    fault::install();
    // A new process starts on its parent's CPU. This CPU then stays in the mask of CPUs that the kernel may
    // interrupt when it unmaps pages of the new address space. So the figures depend on this CPU, and all
    // experiments must start on the same CPU.
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
            // The number of tests of a failed experiment is unknown, so `first` of the next
            // experiment would be unknown too.
            break;
        }
        first += tests;
        empty(Path::new("."))?;
    }
    Ok(())
}

/// Repeats an operation on the running kernel, for strace or perf. The working directory must be empty. Calls
/// getpriority before the first operation and after the last one, to mark where the operations begin and end.
///
/// # Errors
/// There is no such operation, or one of its parts failed.
pub(crate) fn repeat(operation: &str, rounds: u32) -> io::Result<()> {
    let known = operations().find(|known| known.name == operation);
    let operation = known.ok_or_else(|| io::Error::other("there is no such operation"))?;
    fault::install();
    let mut own = Own::new(0, 1, rounds, shared_file()?);
    (operation.set_up)(&mut own)?;
    let mark = || rustix::process::getpriority_process(None).map(drop);
    mark()?;
    for _ in 0..rounds {
        operation.perform(&mut own).map_err(|(_, error)| error)?;
    }
    Ok(mark()?)
}

/// Creates and opens the file that all tasks share. It is one page long and is in the working directory.
fn shared_file() -> io::Result<Arc<File>> {
    fs::write("shared", [7; PAGE])?;
    Ok(Arc::new(File::open("shared")?))
}

/// Removes everything in a directory.
fn empty(directory: &Path) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        match entry.file_type()?.is_dir() {
            true => fs::remove_dir_all(entry.path())?,
            false => fs::remove_file(entry.path())?,
        }
    }
    Ok(())
}

/// Runs an experiment. If the experiment fails, returns the reason.
fn make(
    experiment: &Experiment,
    mode: Mode,
    rounds: u32,
    turns: Turns,
) -> io::Result<Option<String>> {
    let Experiment { operation, cpus } = experiment;
    let cpus = *cpus as usize;
    let Some(operation) = operations().find(|known| known.name == *operation) else {
        return Ok(Some(format!("the agent has no operation {operation}")));
    };
    // The cache of a CPU may still hold lines of memory that an earlier experiment has freed. These
    // lines would change the figures of this experiment.
    Mark::Flush.emit();
    let shared = shared_file()?;
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
        // SAFETY: `child` is a child of this process, and `status` is writable.
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

/// Runs `child` in a new process, and returns the ID of the process.
fn fork(child: impl FnOnce()) -> io::Result<libc::pid_t> {
    // SAFETY: this process has only one thread.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            child();
            // SAFETY: `_exit` ends the process without running exit handlers, which belong to the
            // parent.
            unsafe { libc::_exit(0) }
        }
        id => Ok(id),
    }
}
