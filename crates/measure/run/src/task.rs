//! The interface of knee to a running testcase: its number, the start gate, its counter.
//!
//! ```
//! use knee_run::{Outcome, Task};
//!
//! fn getppid(task: &Task<'_>) -> Outcome {
//!     task.repeat(|| {
//!         rustix::process::getppid();
//!         Ok(())
//!     })
//! }
//! ```

use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::area::{Area, SharedObject};
use crate::call::{During, TaskError};
use crate::parameter::{Choice, Settings};
use crate::timer::Timer;
use knee_host::affinity::pin;
use knee_host::process::{exit_now, fork_bound};
use knee_results::Mode;

/// The [helper](Task::spawn_helper) of a task runs on the CPU of the task.
pub const SAME_CPU: Choice =
    Choice::new("helper", "same-cpu", "each task's helper runs on the task's CPU");
/// It runs on the next CPU of the placement.
pub const NEXT_CPU: Choice =
    Choice::new("helper", "next-cpu", "each task's helper runs on the next CPU of the placement");

/// A testcase runs until it is killed; returning is a failure.
pub type Outcome = Result<Infallible, TaskError>;

/// One running copy of a testcase.
pub struct Task<'a> {
    /// Number of this task, from 0.
    pub nr: usize,
    /// Number of tasks of this point.
    pub tasks: usize,
    /// Processes or threads.
    pub mode: Mode,
    /// A value for each parameter of the testcase.
    pub settings: &'a Settings,
    /// A directory that all tasks of the point share, removed after the point.
    pub dir: &'a Path,
    pub(crate) area: &'a Area,
    pub(crate) cpus: &'a [u32],
}

impl Task<'_> {
    /// Whether it runs with this choice.
    pub fn has(&self, choice: Choice) -> bool {
        self.settings.has(choice)
    }

    /// A path in that directory that no other task uses.
    pub fn own_path(&self, name: &str) -> PathBuf {
        self.dir.join(format!("{name}.{}", self.nr))
    }

    /// Memory that all tasks of the point share, in both modes.
    pub fn object(&self) -> &SharedObject {
        self.area.object()
    }

    /// Reports ready, sleeps until all tasks are ready, and returns the counter. Must be called
    /// once, after the set-up.
    pub fn start(&self) -> Count<'_> {
        let timer = self.area.timer(self.nr);
        if let Some(timer) = timer {
            timer.calibrate();
        }
        self.area.wait_for_start(self.nr);
        if let Some(timer) = timer {
            timer.restart();
        }
        Count { count: 0, published: self.area.slot(self.nr).count(), timer }
    }

    /// [`Task::start`], then runs `iteration` forever and counts each one.
    #[inline]
    pub fn repeat(&self, mut iteration: impl FnMut() -> Result<(), TaskError>) -> Outcome {
        let mut count = self.start();
        loop {
            iteration()?;
            count.add(1);
        }
    }

    /// Starts a helper of this task: a process in process mode, a thread in thread mode. The helper
    /// runs on the CPU of its task (with [`NEXT_CPU`], on the next one of the placement) and ends
    /// with it. Like a task, a helper must not return.
    pub fn spawn_helper<F>(&self, helper: F) -> Result<(), TaskError>
    where
        F: FnOnce() -> Outcome + Send + 'static,
    {
        let cpu = seats(self.cpus, self.settings, self.nr).map(|seats| seats.helper);
        let body = move || {
            if let Some(cpu) = cpu {
                let _ = pin(cpu);
            }
            let Err(error) = helper();
            eprintln!("helper: {error}");
            exit_task()
        };
        match self.mode {
            Mode::Processes => {
                // SAFETY: in process mode a task has one thread, so the child may do anything.
                match unsafe { fork_bound() }.during("create a process")? {
                    None => body(),
                    Some(_) => Ok(()),
                }
            }
            Mode::Threads => {
                std::thread::Builder::new().spawn(body).during("create a thread")?;
                Ok(())
            }
        }
    }
}

/// The CPUs of a task and of its helper.
pub(crate) struct Seats {
    pub(crate) task: u32,
    pub(crate) helper: u32,
}

/// The CPUs of task `nr` in the order of a placement; `None` if tasks are not pinned.
pub(crate) fn seats(cpus: &[u32], settings: &Settings, nr: usize) -> Option<Seats> {
    let at = |i: usize| cpus.get(i % cpus.len().max(1)).copied();
    let (task, helper) = match settings.has(NEXT_CPU) {
        true => {
            // Each lap around the CPUs is shifted by one, so that tasks do not all run on even CPUs
            // and helpers on odd ones.
            let first = 2 * nr + 2 * nr / cpus.len().max(1);
            (first, first + 1)
        }
        false => (nr, nr),
    };
    Some(Seats { task: at(task)?, helper: at(helper)? })
}

/// Exit status of a task that left its reason in its slot (EX_SOFTWARE of sysexits.h).
const EXIT_TASK: i32 = 70;

/// Ends the calling task with the status that means that its slot contains the reason.
pub(crate) fn exit_task() -> ! {
    exit_now(EXIT_TASK)
}

/// The counter of a task. The count stays in a register and is published with a plain store. That
/// costs half a nanosecond; an atomic read-modify-write in shared memory costs two to four.
pub struct Count<'a> {
    count: u64,
    published: &'a AtomicU64,
    /// Measures the time of each iteration, if the run asks for it.
    timer: Option<&'a Timer>,
}

impl Count<'_> {
    /// Counts `n` more.
    #[inline(always)]
    pub fn add(&mut self, n: u64) {
        self.count += n;
        // Relaxed: nothing else is published with the count.
        self.published.store(self.count, Ordering::Relaxed);
        if let Some(timer) = self.timer {
            timer.lap(n);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(choice: Choice) -> Settings {
        Settings::new(&[&[SAME_CPU, NEXT_CPU]], &[(choice.key, choice.value)]).unwrap()
    }

    fn seats_of(cpus: &[u32], choice: Choice, tasks: usize) -> Vec<(u32, u32)> {
        let settings = settings(choice);
        (0..tasks)
            .map(|nr| seats(cpus, &settings, nr).unwrap())
            .map(|s| (s.task, s.helper))
            .collect()
    }

    #[test]
    fn more_tasks_than_cpus_go_round() {
        assert_eq!(seats_of(&[4, 6], SAME_CPU, 3), [(4, 4), (6, 6), (4, 4)]);
    }

    #[test]
    fn a_task_and_its_helper_run_on_adjacent_cpus_in_balanced_laps() {
        assert_eq!(seats_of(&[0, 1], NEXT_CPU, 2), [(0, 1), (1, 0)]);
        assert_eq!(seats_of(&[0, 1, 2, 3], NEXT_CPU, 3), [(0, 1), (2, 3), (1, 2)]);
    }

    #[test]
    fn without_a_placement_no_task_is_pinned() {
        assert!(seats(&[], &Settings::default(), 0).is_none());
    }
}
