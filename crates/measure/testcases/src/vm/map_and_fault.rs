//! A map for each fault.

use knee_run::{Outcome, Task, Testcase};
use knee_vm::PAGE;

use super::choices::DESIGNS_AND_SHOOTDOWN;
use super::hosted::hosted;
use super::user::User;
use crate::memory::region::LARGE;

pub(super) const TESTCASES: &[Testcase] = &[Testcase {
    name: "vm_page_fault4",
    description: "map 128 MB of anonymous memory, write to one page (the next one each time), \
        unmap",
    parameters: DESIGNS_AND_SHOOTDOWN,
    ..hosted(fault)
}];

/// Iterations between two ticks of a CPU: about a millisecond, which a kernel's timer has. All designs tick.
const TICK: usize = 2048;

fn fault(task: &Task<'_>) -> Outcome {
    let mut nr = 0;
    // Ranges that wait for ticks are of other addresses, with tables of their own: 32 with 64 of each CPU.
    User::new(task, LARGE / 8)?.repeat(task, |user| {
        let region = user.map(LARGE)?;
        region.write(nr * PAGE % LARGE, 0)?;
        nr += 1;
        if nr.is_multiple_of(TICK) {
            user.cpu().tick();
        }
        region.unmap()
    })
}
