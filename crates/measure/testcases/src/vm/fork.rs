//! Forking, and the copy-on-write breaks afterwards. A copy has the memory of all tasks.

use knee_run::{Outcome, Task, Testcase};

use super::hosted::of_any_design;
use super::user::{User, during};
use crate::memory::fork::BYTES;

pub(super) const TESTCASES: &[Testcase] = &[Testcase {
    name: "vm_fork_cow1",
    description: "fork; write to 1 MiB in the copy; drop the copy; write to the same 1 MiB in the \
        original",
    ..of_any_design(fork)
}];

fn fork(task: &Task<'_>) -> Outcome {
    // The pages of each task as they were when each of them forked, and as they are, and copies.
    let mut user = User::new(task, (task.tasks + 2) * BYTES)?;
    let mut count = user.start(task);
    let region = user.map(BYTES)?;
    region.write_to_all()?;
    loop {
        let copy = during(user.space().fork_boxed(user.cpu()), "fork")?;
        region.of(copy.as_ref()).write_to_all()?;
        drop(copy);
        region.write_to_all()?;
        count.add(1);
    }
}
