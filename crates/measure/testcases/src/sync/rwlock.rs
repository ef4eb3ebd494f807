//! Locks that are read all the time. Nobody writes.

use std::hint::black_box;
use std::sync::{PoisonError, RwLock};

use knee_run::area::Padded;
use knee_run::{Outcome, Task, Testcase};
use knee_sync::rm::RmLock;

use super::shared::{repeat, shared};

pub(super) const TESTCASES: &[Testcase] = &[
    Testcase {
        name: "rwlock_read1",
        description: "takes std::sync::RwLock for reading, reads a number and releases the lock",
        ..shared(rwlock_read1)
    },
    Testcase {
        name: "rmlock_read1",
        description: "takes a read-mostly lock for reading, reads a number and releases the lock",
        ..shared(rmlock_read1)
    },
];

fn rwlock_read1(task: &Task<'_>) -> Outcome {
    repeat(task, || {
        black_box(*RWLOCK.0.read().unwrap_or_else(PoisonError::into_inner));
    })
}

fn rmlock_read1(task: &Task<'_>) -> Outcome {
    repeat(task, || {
        black_box(*RMLOCK.0.read());
    })
}

static RWLOCK: Padded<RwLock<u64>> = Padded(RwLock::new(1));

static RMLOCK: Padded<RmLock<u64>> = Padded(RmLock::new(1));
