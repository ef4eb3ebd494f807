//! Futex calls that neither wake anyone nor sleep: what finding the queue of a futex costs.

use std::sync::atomic::AtomicU32;

use knee_run::{During, Family, Outcome, Task, TaskError, Testcase};
use rustix::io::Errno;
use rustix::thread::futex::{self, Flags};

pub(super) const TESTCASES: &[Testcase] = &[
    Testcase {
        name: "futex1",
        description: "futex(FUTEX_WAKE) of a futex that nobody waits for",
        ..Testcase::new(Family::Lock, futex1)
    },
    Testcase {
        name: "futex2",
        description: "futex(FUTEX_WAIT) on a futex whose value has changed; returns EAGAIN",
        ..Testcase::new(Family::Lock, futex2)
    },
    Testcase {
        name: "futex3",
        description: "futex(FUTEX_WAKE_PRIVATE) of a futex that nobody waits for",
        ..Testcase::new(Family::Lock, futex3)
    },
    Testcase {
        name: "futex4",
        description: "futex(FUTEX_WAIT_PRIVATE) on a futex whose value has changed; returns EAGAIN",
        ..Testcase::new(Family::Lock, futex4)
    },
];

fn futex1(task: &Task<'_>) -> Outcome {
    wake(task, Flags::empty())
}

fn futex2(task: &Task<'_>) -> Outcome {
    wait(task, Flags::empty())
}

fn futex3(task: &Task<'_>) -> Outcome {
    wake(task, Flags::PRIVATE)
}

fn futex4(task: &Task<'_>) -> Outcome {
    wait(task, Flags::PRIVATE)
}

fn wake(task: &Task<'_>, flags: Flags) -> Outcome {
    let word = AtomicU32::new(0);
    task.repeat(|| futex::wake(&word, flags, 1).during("futex(FUTEX_WAKE)").map(drop))
}

fn wait(task: &Task<'_>, flags: Flags) -> Outcome {
    let word = AtomicU32::new(0);
    task.repeat(|| match futex::wait(&word, flags, 1, None) {
        Err(Errno::AGAIN) => Ok(()),
        other => Err(unexpected(other)),
    })
}

#[cold]
fn unexpected(result: Result<(), Errno>) -> TaskError {
    match result.during("futex(FUTEX_WAIT)") {
        Ok(()) => TaskError::found("futex(FUTEX_WAIT) slept although the value had changed"),
        Err(error) => error,
    }
}
