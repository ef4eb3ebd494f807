//! Creates the tasks, determines why one died, and terminates them all.

use std::os::fd::RawFd;

use knee_host::affinity::{confine, pin};
use knee_host::limits::raise_open_files;
use knee_host::process::{end_descendants, fork_bound};
use knee_host::signal::{describe_end, reset_signals};
use knee_results::Mode;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};
use rustix::param::page_size;
use rustix::process::{
    Pid, Signal, WaitOptions, WaitStatus, set_child_subreaper, set_parent_process_death_signal,
    setpgid, wait,
};

use crate::account::CountedEvents;
use crate::area::Area;
use crate::call::{During, TaskError};
use crate::job::{DIED_REMEDY, Failure, FailureKind, Job};
use crate::runner::hold::Hold;
use crate::runner::loaded::Loaded;
use crate::runner::wait::Link;
use crate::task::{Task, exit_task, seats};

/// Testcases of will-it-scale place a megabyte on the stack.
const STACK_BYTES: usize = 8 << 20;

/// The processes of a round.
pub(super) struct Tasks {
    /// In the order of task numbers; a single process in thread mode.
    pids: Vec<Pid>,
    mode: Mode,
    /// The events of all of them; `None` if they are not counted.
    counted: Option<CountedEvents>,
}

impl Tasks {
    /// Before any task is started.
    pub(super) fn none() -> Self {
        Self { pids: Vec::new(), mode: Mode::Processes, counted: None }
    }

    /// Creates all tasks in their own process group. `announce` gets the number of the group as
    /// soon as it is known. If events are counted, no task runs before its counters are open. On an error, the
    /// tasks created so far remain until [`Tasks::kill`].
    pub(super) fn start(
        &mut self,
        loaded: &Loaded,
        job: &Job,
        area: &Area,
        events: RawFd,
        announce: impl FnOnce(i32),
    ) -> Result<(), Failure> {
        // Orphans of a task become children of the runner and are killed with the rest.
        let _ = set_child_subreaper(Some(rustix::process::getpid()));
        self.mode = job.mode;
        let mut announce = Some(announce);
        let hold = job.counters.as_ref().map(|_| Hold::new()).transpose();
        let mut hold = hold.during("create a pipe")?;
        let processes = match job.mode {
            Mode::Processes => job.tasks as usize,
            Mode::Threads => 1,
        };
        for nr in 0..processes {
            let group = self.pids.first().copied();
            // SAFETY: the runner has one thread, so the child may do anything the parent may.
            let Some(pid) = (unsafe { fork_bound() }).during("create a process")? else {
                become_task_process(group, events);
                hold.take().into_iter().for_each(Hold::wait);
                match job.mode {
                    Mode::Processes => run_task(loaded, job, area, nr),
                    Mode::Threads => run_threads(loaded, job, area),
                }
            };
            // Parent and child both call it, because either may run first.
            let _ = setpgid(Some(pid), Some(group.unwrap_or(pid)));
            self.pids.push(pid);
            if let Some(announce) = announce.take() {
                announce(pid.as_raw_pid());
            }
        }
        self.counted = CountedEvents::of_held(job.counters.as_ref(), &self.pids)?;
        drop(hold);
        Ok(())
    }

    /// The event counters of the processes. `None` if the job counts no events, or after the first call.
    pub(super) fn take_counted(&mut self) -> Option<CountedEvents> {
        self.counted.take()
    }

    /// All processes of the round.
    pub(super) fn pids(&self) -> &[Pid] {
        &self.pids
    }

    /// The process that task `nr` runs in.
    pub(super) fn pid(&self, nr: usize) -> Pid {
        match self.mode {
            Mode::Processes => self.pids[nr],
            Mode::Threads => self.pids[0],
        }
    }

    /// Reaps dead children. A dead task is a failure; dead orphans of tasks are not.
    pub(super) fn check(&mut self, area: &Area) -> Result<(), Failure> {
        while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG) {
            if let Some(nr) = self.pids.iter().position(|&p| p == pid) {
                return Err(self.explain(nr, status, area));
            }
        }
        Ok(())
    }

    fn explain(&self, nr: usize, status: WaitStatus, area: &Area) -> Failure {
        let said = match self.mode {
            Mode::Processes => area.slot(nr).error().map(|error| (nr, error)),
            Mode::Threads => {
                area.slots().enumerate().find_map(|(nr, slot)| Some((nr, slot.error()?)))
            }
        };
        if let Some((nr, error)) = said {
            let failure = Failure::from(error);
            return Failure { reason: format!("task {nr}: {}", failure.reason), ..failure };
        }
        let who = match self.mode {
            Mode::Processes => format!("task {nr}"),
            Mode::Threads => "the process of the threads".to_owned(),
        };
        let how = describe_end(status.terminating_signal(), status.exit_status());
        Failure::new(FailureKind::Died, format!("{who} {how}"), DIED_REMEDY)
    }

    /// Kills every task and every process that they started, and waits until they are gone.
    pub(super) fn kill(&mut self) {
        // They and the processes that a prepare function started are descendants of the runner.
        end_descendants();
        self.pids.clear();
    }
}

/// Runs foreign code that may hang. If knee dies meanwhile, the kernel kills the runner. `None` if
/// knee has already exited.
pub(super) fn with_parent_watched<T>(link: &Link, foreign: impl FnOnce() -> T) -> Option<T> {
    let _ = set_parent_process_death_signal(Some(Signal::KILL));
    if link.parent_is_gone() {
        return None;
    }
    let result = foreign();
    let _ = set_parent_process_death_signal(None);
    Some(result)
}

/// Raises the open-file limit to its maximum, and removes the timer slack.
pub(super) fn raise_limits() {
    raise_open_files();
    let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
}

/// Creates `n` maps of one page for the tasks to inherit; see [`Job::layout`]. Adjacent maps have
/// different protections, so that the kernel does not merge them.
pub(super) fn shift_maps(n: u32) {
    for i in 0..n {
        let protection = if i % 2 == 0 { ProtFlags::empty() } else { ProtFlags::READ };
        // SAFETY: the kernel chooses the address, so no existing mapping is replaced.
        let _ = unsafe {
            mmap_anonymous(std::ptr::null_mut(), page_size(), protection, MapFlags::PRIVATE)
        };
    }
}

/// Makes the runner an ordinary process again, for work that it does not measure.
pub(super) fn leave_seat() {
    // Without privileges, the process cannot clear the flag.
    set_scheduler(libc::SCHED_OTHER | libc::SCHED_RESET_ON_FORK, 0);
}

/// Prepares the runner for measuring: on its own CPU if there is one, and with a priority to
/// preempt a task on the same CPU, so that samples are on time. Without the permission, samples are
/// somewhat late, which is measured. Call it after all tasks exist, because they would inherit the
/// settings.
pub(super) fn take_seat(cpu: Option<u32>) {
    if let Some(cpu) = cpu {
        let _ = pin(cpu);
    }
    set_scheduler(libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, 1);
}

/// The system call, because the function of this name only fails in musl.
fn set_scheduler(policy: i32, priority: i32) {
    // SAFETY: the kernel reads one `int` as its `struct sched_param`.
    unsafe {
        libc::syscall(libc::SYS_sched_setscheduler, 0, policy, &raw const priority);
    }
}

/// Makes the new child an ordinary process: it cannot send events, and does not keep the signal
/// settings and timer slack of the runner.
fn become_task_process(group: Option<Pid>, events: RawFd) {
    let _ = setpgid(None, group);
    // SAFETY: the descriptor `events` belongs to the runner, and nothing in this child uses it.
    unsafe {
        libc::close(events);
    }
    reset_signals();
    let _ = rustix::thread::set_current_timer_slack(None);
}

fn run_task(loaded: &Loaded, job: &Job, area: &Area, nr: usize) -> ! {
    let error = match seat_and_run(loaded, job, area, nr) {
        Ok(()) => TaskError::found("the testcase returned, but its loop must never end"),
        Err(error) => error,
    };
    area.slot(nr).set_error(&error);
    exit_task()
}

fn seat_and_run(loaded: &Loaded, job: &Job, area: &Area, nr: usize) -> Result<(), TaskError> {
    let settings = loaded.settings();
    match seats(job.seats(), settings, nr) {
        Some(seats) => pin(seats.task).during("sched_setaffinity")?,
        None => confine(&job.cpus).during("sched_setaffinity")?,
    }
    match loaded {
        Loaded::BuiltIn(selected) => {
            let task = Task {
                area,
                nr,
                tasks: job.tasks as usize,
                mode: job.mode,
                settings,
                dir: &job.dir,
                cpus: job.seats(),
            };
            (selected.testcase.run)(&task).map(|never| match never {})
        }
        Loaded::Plugin(plugin) => {
            plugin.run(job.mode, area, nr);
            Ok(())
        }
    }
}

fn run_threads(loaded: &Loaded, job: &Job, area: &Area) -> ! {
    std::thread::scope(|scope| {
        for nr in 0..job.tasks as usize {
            let thread = std::thread::Builder::new()
                .stack_size(STACK_BYTES)
                .spawn_scoped(scope, move || run_task(loaded, job, area, nr));
            if let Err(error) = thread.during("create a thread") {
                area.slot(nr).set_error(&error);
                exit_task();
            }
        }
    });
    exit_task()
}
