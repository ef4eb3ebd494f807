//! Growth by a page, and back.
//!
//! There is one break, and all tasks move it between the same two addresses, as threads do in
//! `brk1`. A task that finds it at the target address changes nothing.

use knee_run::{Outcome, Task, TaskError, Testcase};
use knee_vm::{MapError, PAGE, Pages, Protection, VirtAddr};

use super::hosted::of_any_design;
use super::user::{User, during};

pub(super) const TESTCASES: &[Testcase] = &[
    Testcase {
        name: "vm_brk1",
        description: "maps the page above a gap, and unmaps this page; counts both",
        ..of_any_design(vm_brk1)
    },
    Testcase {
        name: "vm_brk2",
        description: "maps the page above the last mapping, and unmaps this page; counts both",
        ..of_any_design(vm_brk2)
    },
];

fn vm_brk1(task: &Task<'_>) -> Outcome {
    up_and_down(task, GAP)
}

fn vm_brk2(task: &Task<'_>) -> Outcome {
    up_and_down(task, 0)
}

/// Address of the heap, and the bytes of it that stay mapped.
const HEAP: usize = 1 << 30;
const STAYS: usize = 16 * PAGE;
/// Bytes above that.
const GAP: usize = 1 << 20;

fn up_and_down(task: &Task<'_>, gap: usize) -> Outcome {
    let mut user = User::new(task, STAYS)?;
    map(&user, pages(HEAP, STAYS))?;
    let page = pages(HEAP + STAYS + gap, PAGE);
    let mut count = user.start(task);
    loop {
        map(&user, page)?;
        during(user.space().unmap(user.cpu(), page), "unmap")?;
        count.add(2);
    }
}

fn pages(address: usize, bytes: usize) -> Pages {
    Pages::new(VirtAddr(address as u64).page(), (bytes / PAGE) as u64)
}

/// Maps what another task may have mapped before.
#[inline]
fn map(user: &User, pages: Pages) -> Result<(), TaskError> {
    match user.space().map(user.cpu(), pages, Protection::READ_WRITE) {
        Err(MapError::Occupied) => Ok(()),
        result => during(result, "map"),
    }
}
