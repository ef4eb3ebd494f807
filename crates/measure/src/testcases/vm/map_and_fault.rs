//! A map for each fault.

use knee_vm::PAGE;

use super::of_any_design;
use super::user::User;
use crate::task::{Outcome, Task};
use crate::testcase::Testcase;
use crate::testcases::memory::region::LARGE;

pub(super) const TESTCASES: &[Testcase] = &[Testcase {
    name: "vm_page_fault4",
    description: "map 128 MB of anonymous memory, write to one page (the next), unmap",
    ..of_any_design(fault)
}];

fn fault(task: &Task<'_>) -> Outcome {
    let mut offset = 0;
    User::new(task, PAGE)?.repeat(task, |user| {
        let region = user.map(LARGE)?;
        region.write(offset, 0)?;
        offset = (offset + PAGE) % LARGE;
        region.unmap()
    })
}
