//! Tasks that share nothing but the space.

use knee_run::{Outcome, Task, Testcase};

use super::hosted::of_any_design;
use super::user::User;
use crate::memory::disjoint::{BYTES, zone};

pub(super) const TESTCASES: &[Testcase] = &[Testcase {
    name: "vm_mmap_disjoint1",
    description: "map 64 KiB of anonymous memory far from other tasks' mappings, write to each \
        page, unmap",
    ..of_any_design(disjoint)
}];

fn disjoint(task: &Task<'_>) -> Outcome {
    let address = zone(task);
    User::new(task, BYTES)?.repeat(task, |user| {
        let region = user.map_at(address, BYTES)?;
        region.write_to_all()?;
        region.unmap()
    })
}
