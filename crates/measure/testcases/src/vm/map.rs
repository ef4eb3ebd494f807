//! Mapping and unmapping without touching.

use knee_run::{Outcome, Task, Testcase};
use knee_vm::Sharing;

use super::hosted::{hosted, of_any_design};
use super::user::User;
use crate::memory::region::LARGE;

pub(super) const TESTCASES: &[Testcase] = &[
    Testcase {
        name: "vm_mmap1",
        description: "maps and unmaps 128 MB of anonymous memory",
        ..of_any_design(anonymous)
    },
    Testcase {
        name: "vm_mmap2",
        description: "maps and unmaps 128 MB of the task's memory object, mapped privately",
        ..hosted(object)
    },
];

fn anonymous(task: &Task<'_>) -> Outcome {
    User::new(task, 0)?.repeat(task, |user| user.map(LARGE)?.unmap())
}

fn object(task: &Task<'_>) -> Outcome {
    let user = User::with_objects(task, 0);
    let object = user.object(LARGE)?;
    user.repeat(task, |user| user.map_object(&object, Sharing::Private)?.unmap())
}
