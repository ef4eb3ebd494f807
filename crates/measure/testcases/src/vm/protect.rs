//! Taking and giving write access.

use knee_run::{Outcome, Task, Testcase};
use knee_vm::{PAGE, Protection};

use super::hosted::of_any_design;
use super::user::User;

pub(super) const TESTCASES: &[Testcase] = &[Testcase {
    name: "vm_mprotect_flip1",
    description: "make the task's own page read-only and writable again; write to the page",
    ..of_any_design(flip)
}];

fn flip(task: &Task<'_>) -> Outcome {
    let mut user = User::new(task, PAGE)?;
    let mut count = user.start(task);
    let region = user.map(PAGE)?;
    region.write(0, 0)?;
    loop {
        region.protect(Protection::READ)?;
        region.protect(Protection::READ_WRITE)?;
        region.write(0, 0)?;
        count.add(1);
    }
}
