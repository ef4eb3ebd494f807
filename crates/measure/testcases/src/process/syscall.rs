//! The cheapest system calls: what entering and leaving the kernel costs, and the scheduler's.

use knee_run::{Family, Outcome, Task, Testcase};
use rustix::process::{getppid, getuid};
use rustix::thread::sched_yield;

pub(super) const TESTCASES: &[Testcase] = &[
    Testcase {
        name: "getppid1",
        description: "getppid()",
        ..Testcase::new(Family::Process, getppid1)
    },
    Testcase {
        name: "getuid1",
        description: "getuid()",
        ..Testcase::new(Family::Process, getuid1)
    },
    Testcase {
        name: "sched_yield",
        description: "sched_yield(); a task alone on its CPU has no other task to yield to",
        ..Testcase::new(Family::Process, yield_cpu)
    },
];

fn getppid1(task: &Task<'_>) -> Outcome {
    call(task, getppid)
}

fn getuid1(task: &Task<'_>) -> Outcome {
    call(task, getuid)
}

fn yield_cpu(task: &Task<'_>) -> Outcome {
    call(task, sched_yield)
}

fn call<T>(task: &Task<'_>, syscall: impl Fn() -> T) -> Outcome {
    task.repeat(|| {
        std::hint::black_box(syscall());
        Ok(())
    })
}
