//! Array jobs of Slurm. The status files of the jobs say which of them have ended; Slurm says which of them have
//! disappeared without one.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use knee_host::Interrupt;
use knee_host::number::plural;
use knee_host::process::{last_line, output, wait_readable};

use super::directory::Directory;
use super::queue::Queue;
use crate::file::write;
use crate::stderr::tell;

/// How often knee looks for status files.
const LOOK: Duration = Duration::from_secs(1);
/// How often knee asks Slurm which tasks are left. Its controller serves all users of the cluster.
const ASK: Duration = Duration::from_secs(10);
/// How long a status file may take to appear here after its task has ended. Network file systems cache
/// directories.
const APPEAR: Duration = Duration::from_secs(15);
/// How long cancelled tasks may take to end.
const CANCEL: Duration = Duration::from_secs(8);
/// Tasks of one array. The default of Slurm's MaxArraySize is 1001, and task numbers are below it.
const MAX_TASKS: usize = 1000;
/// The script of a task.
const TASK: &str = include_str!("task.sh");

/// Array jobs in which the jobs of a directory run.
pub(super) struct Slurm<'a> {
    directory: &'a Directory,
    /// Tasks at a time.
    most: Option<usize>,
    /// Whether each task gets a node of its own.
    is_exclusive: bool,
    /// The array jobs that may still run.
    arrays: Vec<String>,
}

/// The array jobs that a knee process has submitted for a directory and that may still run.
pub(super) fn submitted(directory: &Directory) -> Vec<String> {
    numbers(&fs::read_to_string(arrays_file(directory)).unwrap_or_default())
}

/// The lines that are numbers of array jobs. A line that begins with a dash would be an option of scancel.
fn numbers(lines: &str) -> Vec<String> {
    let is_number =
        |line: &&str| !line.is_empty() && line.bytes().all(|byte| byte.is_ascii_digit());
    lines.lines().filter(is_number).map(str::to_owned).collect()
}

impl<'a> Slurm<'a> {
    /// Also cancels the array jobs that a killed knee process left for this directory, so that no job runs twice
    /// at the same time.
    pub(super) fn new(
        directory: &'a Directory,
        most: Option<usize>,
        is_exclusive: bool,
    ) -> anyhow::Result<Self> {
        let arrays = submitted(directory);
        let mut slurm = Self { directory, most, is_exclusive, arrays };
        slurm.cancel()?;
        ensure!(
            slurm.arrays.is_empty(),
            "Slurm has not ended the cancelled array jobs {} yet; try again in a minute",
            slurm.arrays.join(",")
        );
        Ok(slurm)
    }

    /// Runs the jobs of the queue. Calls `show` at least every second. Returns the signal that ended the work, if
    /// any.
    pub(super) fn run(
        &mut self,
        queue: &Queue,
        interrupt: &Interrupt,
        mut show: impl FnMut(),
    ) -> anyhow::Result<Option<i32>> {
        loop {
            let jobs = queue.take_all();
            if jobs.is_empty() {
                return Ok(None);
            }
            if let Err(error) = self.submit(&jobs) {
                self.cancel()?;
                return Err(error);
            }
            let running: BTreeSet<usize> = jobs.into_iter().collect();
            if let Some(signal) = self.wait(running, queue, interrupt, &mut show)? {
                return Ok(Some(signal));
            }
            self.set_arrays(Vec::new())?;
        }
    }

    /// Submits these jobs as tasks of as few arrays as possible.
    fn submit(&mut self, jobs: &[usize]) -> anyhow::Result<()> {
        let path = self.directory.path();
        let mut tasks = String::new();
        for &job in jobs {
            self.directory.forget(job)?;
            tasks += &format!("{job}\n");
        }
        write(&path.join("tasks"), tasks.as_bytes())?;
        let script = path.join("task");
        write(&script, TASK.as_bytes())?;
        for (nr, array) in jobs.chunks(MAX_TASKS).enumerate() {
            let most = self.most.map_or(String::new(), |most| format!("%{most}"));
            let mut sbatch = Command::new("sbatch");
            sbatch.args(["--parsable", "--job-name=knee-jobs"]);
            sbatch.args(["--output=/dev/null", "--error=/dev/null"]);
            sbatch.arg(format!("--array=1-{}{most}", array.len()));
            if self.is_exclusive {
                sbatch.arg("--exclusive");
            }
            sbatch.arg(&script).arg(path).arg((nr * MAX_TASKS).to_string());
            let printed = ask(&mut sbatch)?;
            // Behind the number, there may be the name of the cluster.
            let array = printed.trim().split(';').next().unwrap_or_default().to_owned();
            let arrays = self.arrays.iter().cloned().chain([array]).collect();
            self.set_arrays(arrays)?;
        }
        Ok(())
    }

    /// Waits for the end of the running jobs.
    fn wait(
        &mut self,
        mut running: BTreeSet<usize>,
        queue: &Queue,
        interrupt: &Interrupt,
        show: &mut impl FnMut(),
    ) -> anyhow::Result<Option<i32>> {
        let mut asked = Instant::now();
        // When Slurm had no task left.
        let mut gone: Option<Instant> = None;
        while !running.is_empty() {
            if wait_readable(interrupt, LOOK)
                && let Some(signal) = interrupt.take()
            {
                queue.stop();
                self.cancel()?;
                for job in running.into_iter().filter(|&job| !self.directory.is_done(job)) {
                    self.directory.forget(job)?;
                }
                return Ok(Some(signal));
            }
            running.retain(|&job| match self.directory.end(job) {
                Some(end) => {
                    queue.ended(job, end.status == 0);
                    false
                }
                None => true,
            });
            if gone.is_none() && asked.elapsed() >= ASK {
                asked = Instant::now();
                gone = (!self.has_tasks()?).then(Instant::now);
            }
            if gone.is_some_and(|gone| gone.elapsed() >= APPEAR) {
                let lost = plural(running.len(), "job");
                tell!(
                    "knee: {lost} left no status, beginning with job {}; check that the nodes can write to \
                     {}, and whether Slurm cancelled a task or it exceeded a limit: sacct -j {}",
                    running.first().copied().unwrap_or_default(),
                    self.directory.path().display(),
                    self.arrays.join(",")
                );
                running.iter().for_each(|&job| queue.ended(job, false));
                running.clear();
            }
            show();
        }
        Ok(None)
    }

    /// Cancels all arrays, and waits until they have ended.
    fn cancel(&mut self) -> anyhow::Result<()> {
        if self.arrays.is_empty() {
            return Ok(());
        }
        // Fails if an array has ended already.
        let _ = ask(Command::new("scancel").args(&self.arrays));
        let begun = Instant::now();
        while self.has_tasks()? {
            if begun.elapsed() >= CANCEL {
                // They still run, so they stay in the list.
                return Ok(());
            }
            std::thread::sleep(LOOK / 4);
        }
        self.set_arrays(Vec::new())
    }

    /// Whether tasks wait or run.
    fn has_tasks(&self) -> anyhow::Result<bool> {
        let mut squeue = Command::new("squeue");
        squeue.args(["--noheader", "--format=%T", "--jobs"]).arg(self.arrays.join(","));
        match ask(&mut squeue) {
            Ok(tasks) => Ok(!tasks.trim().is_empty()),
            // Slurm forgets jobs a few minutes after their end.
            Err(error) if error.to_string().contains("Invalid job id") => Ok(false),
            // Otherwise the controller may be restarting. The tasks run on meanwhile.
            Err(error) if error.is::<Refused>() => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// Keeps the arrays in a file too, for the case that this process is killed.
    fn set_arrays(&mut self, arrays: Vec<String>) -> anyhow::Result<()> {
        let lines: String = arrays.iter().map(|array| format!("{array}\n")).collect();
        self.arrays = arrays;
        write(&arrays_file(self.directory), lines.as_bytes())
    }
}

fn arrays_file(directory: &Directory) -> PathBuf {
    directory.path().join("arrays")
}

/// A command of Slurm that failed.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Refused(String);

/// What a command of Slurm prints.
fn ask(command: &mut Command) -> anyhow::Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let printed = output(command.stdin(Stdio::null()));
    let printed = printed.with_context(|| format!("cannot run {name} of Slurm (slurm-client)"))?;
    if !printed.status.success() {
        let reason = last_line(&printed.stderr).unwrap_or_else(|| "no reason".to_owned());
        return Err(Refused(format!("{name}: {reason}")).into());
    }
    Ok(String::from_utf8_lossy(&printed.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    #[test]
    fn only_numbers_of_array_jobs_are_passed_to_slurm() {
        assert_eq!(super::numbers("12\n--user=root\n\n 7\n12_3\n90\n"), ["12", "90"]);
    }
}
