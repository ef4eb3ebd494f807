//! Tasks that share nothing but the address space, so that the remaining contention comes from the
//! kernel.

use knee_run::{Family, Outcome, Task, TaskError, Testcase};
use rustix::param::page_size;

use super::region::{Region, choose_page_size};

pub(super) const TESTCASES: &[Testcase] = &[Testcase {
    name: "mmap_disjoint1",
    description: "map 64 KiB of anonymous memory far from other tasks' mappings, write to each \
        page, unmap",
    ..Testcase::new(Family::Memory, disjoint)
}];

/// What each task maps.
pub(crate) const BYTES: usize = 64 << 10;
/// Distance from task to task: what one page of the second level of the page table spans (with
/// 4 KiB pages), so that no task has entries in another's pages of the two lowest levels.
const ZONE: usize = 1 << 30;
/// Address of the first zone, 64 GiB: above programs linked to a fixed address and their heap,
/// below where kernels put position-independent programs, libraries and stacks, down to the
/// smallest 64-bit address spaces (256 GiB).
const FIRST: usize = 64 << 30;

/// Where the zone of this task begins.
pub(crate) fn zone(task: &Task<'_>) -> usize {
    FIRST + task.nr * ZONE
}

fn disjoint(task: &Task<'_>) -> Outcome {
    choose_page_size(task)?;
    let page = page_size();
    let address = zone(task);
    Region::anonymous_at(address, BYTES).and_then(Region::unmap).map_err(|error| {
        TaskError::found(format!("{error}: the address {address:#x} is not free; use fewer tasks"))
    })?;
    task.repeat(|| {
        let region = Region::anonymous_at(address, BYTES)?;
        for offset in (0..BYTES).step_by(page) {
            region.write(offset, 0);
        }
        region.unmap()
    })
}
