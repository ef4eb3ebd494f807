//! Asking for the attributes of an open file.

use std::hint::black_box;

use knee_run::{During, Family, Outcome, Task, Testcase};
use rustix::fs::OFlags;

use super::scratch::{self, LONG};

pub(super) const TESTCASES: &[Testcase] = &[Testcase {
    name: "fstat1",
    description: "fstat() of the task's own open 1 MiB file",
    ..Testcase::new(Family::File, fstat)
}];

fn fstat(task: &Task<'_>) -> Outcome {
    let file = scratch::own(task, LONG, OFlags::empty())?;
    task.repeat(|| {
        black_box(&rustix::fs::fstat(&file).during("fstat")?);
        Ok(())
    })
}
