//! One task of an experiment.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::Duration;

use knee_marks::Mark;
use knee_operations::Part;
use rustix::io::Errno;
use rustix::process;

use super::own::{Operation, Own};
use super::turns::Turns;
use crate::steps::Failed;
use crate::workers::pin;

/// A task and its parameters.
pub(super) struct Task {
    pub(super) operation: &'static Operation,
    /// The index of the task, which is also the number of its CPU.
    pub(super) nr: usize,
    pub(super) turns: Turns,
    pub(super) rounds: u32,
    /// The number of tasks in this task's address space.
    pub(super) neighbours: usize,
    /// A file that all tasks have open.
    pub(super) shared: Arc<File>,
}

impl Task {
    /// Takes all turns of the task. After a failure, tasks still pass their turns to each other, but do
    /// nothing else.
    pub(super) fn run(self) {
        let Task { operation, nr, neighbours, turns, rounds, shared } = self;
        pin(nr);
        let before = turns.arrive(nr);
        let mut own = Own::new(nr, neighbours, rounds, shared);
        let sleeper = (operation.set_up)(&mut own)
            .map_err(|errno| failure((Part::SetUp, errno)))
            .and_then(|()| Sleeper::new(before))
            .map_err(|failed| turns.fail(failed));
        turns.pass(nr);
        for round in 0..rounds {
            turns.wait(nr, round + 2);
            if (nr, round) == (0, 0) {
                settle();
            }
            if let (Ok(before), None) = (&sleeper, turns.failure())
                && let Err(failed) = turn(operation, &mut own, before)
            {
                turns.fail(failed);
            }
            turns.pass(nr);
        }
        // Wait for one more turn, so that this task does not end while another task is still in its last
        // operation.
        turns.wait(nr, rounds + 2);
        if nr == 0 {
            settle();
            pause();
        }
        turns.pass(nr);
    }
}

/// Waits until the kernel has done the work that it deferred until after a grace period. One grace period is
/// not enough: a callback that is queued during a grace period runs only after a later one, and a callback
/// may queue another one. CPUs run callbacks after a tick, and ticks come every 4 ms (HZ=250).
fn settle() {
    const GRACE_PERIODS: u32 = 3;
    const TICKS: Duration = Duration::from_millis(12);
    for _ in 0..GRACE_PERIODS {
        // SAFETY: this system call reads no memory. With this command (MEMBARRIER_CMD_GLOBAL), the call
        // waits for a grace period (kernel/sched/membarrier.c). If the kernel does not support this command,
        // the figures omit some deferred work.
        unsafe { libc::syscall(libc::SYS_membarrier, 1, 0, 0) };
        std::thread::sleep(TICKS);
    }
}

/// Runs a test whose two sides write to the same stack and thus conflict. The guest pauses after
/// this test, while the tasks and their memory still exist, so the host can read the data in the
/// lines that moved.
fn pause() {
    Mark::Begin.emit();
    for side in 0..2 {
        Mark::Open(side).emit();
        let _ = process::getppid();
        Mark::Close(side).emit();
    }
    Mark::End.emit();
}

fn turn(operation: &Operation, own: &mut Own, before: &Sleeper) -> Result<(), Failed> {
    before.wait()?;
    operation.perform(own).map_err(failure)
}

/// The part of an operation that failed, as text, and its errno.
fn failure((part, errno): knee_operations::Failed<Errno>) -> Failed {
    (part.as_str(), errno.raw_os_error())
}

/// The task whose turn always comes directly before this task's turn.
struct Sleeper {
    /// The file /proc/ID/syscall of the sleeper, or `None` if there is only one task.
    syscall: Option<File>,
}

impl Sleeper {
    fn new(thread: libc::pid_t) -> Result<Sleeper, Failed> {
        // SAFETY: this is a plain system call.
        if thread == unsafe { libc::gettid() } {
            return Ok(Sleeper { syscall: None });
        }
        match File::open(format!("/proc/{thread}/syscall")) {
            Ok(file) => Ok(Sleeper { syscall: Some(file) }),
            Err(error) => Err((
                "watch the previous task in /proc/ID/syscall",
                error.raw_os_error().unwrap_or(0),
            )),
        }
    }

    /// Waits until the CPU of the sleeper has switched to another task. Until then, the sleeper may
    /// still be in the kernel, or this task's operation may interrupt the sleeper's CPU. For example,
    /// unmapping interrupts all CPUs that use the address space.
    fn wait(&self) -> Result<(), Failed> {
        let Some(syscall) = &self.syscall else { return Ok(()) };
        let mut state = [0; 16];
        loop {
            match syscall.read_at(&mut state, 0) {
                Ok(length) if state[..length].starts_with(b"running") => {}
                Ok(_) => return Ok(()),
                Err(error) => {
                    return Err((
                        "read the state of the previous task from /proc/ID/syscall",
                        error.raw_os_error().unwrap_or(0),
                    ));
                }
            }
        }
    }
}
