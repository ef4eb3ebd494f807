//! Removing and restoring write access, as garbage collectors and debuggers do.
//!
//! Removing it requires a TLB flush on every CPU where a thread of the process runs.

use knee_run::{Family, Outcome, Task, Testcase};
use rustix::param::page_size;

use super::region::Region;

pub(super) const TESTCASES: &[Testcase] = &[Testcase {
    name: "mprotect_flip1",
    description: "mprotect() the task's own page to read-only and back to writable; write to the \
        page",
    ..Testcase::new(Family::Memory, flip)
}];

fn flip(task: &Task<'_>) -> Outcome {
    let region = Region::anonymous(page_size())?;
    region.write(0, 0);
    task.repeat(|| {
        region.protect(false)?;
        region.protect(true)?;
        region.write(0, 0);
        Ok(())
    })
}
