//! Taking a slot of the descriptor table and giving it back.

use knee_run::{During, Family, Outcome, Task, Testcase};
use rustix::fs::OFlags;
use rustix::io;

use crate::file::scratch;

pub(super) const TESTCASES: &[Testcase] = &[Testcase {
    name: "dup1",
    description: "dup() of the descriptor of the task's own file, and close() of the new one",
    ..Testcase::new(Family::Directory, dup)
}];

fn dup(task: &Task<'_>) -> Outcome {
    let file = scratch::own(task, 0, OFlags::empty())?;
    task.repeat(|| io::dup(&file).during("dup").map(drop))
}
