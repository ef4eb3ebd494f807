//! Mapping and unmapping without touching.

use knee_run::{Family, Outcome, Task, Testcase};
use rustix::mm::MapFlags;

use super::region::{LARGE, Region, own_sparse_file};

pub(super) const TESTCASES: &[Testcase] = &[
    Testcase {
        name: "mmap1",
        description: "mmap() and munmap() of 128 MB of anonymous memory",
        ..Testcase::new(Family::Memory, anonymous)
    },
    Testcase {
        name: "mmap2",
        description: "mmap() and munmap() of 128 MB of the task's own file, mapped privately",
        ..Testcase::new(Family::Memory, file)
    },
];

fn anonymous(task: &Task<'_>) -> Outcome {
    task.repeat(|| Region::anonymous(LARGE)?.unmap())
}

fn file(task: &Task<'_>) -> Outcome {
    let file = own_sparse_file(task)?;
    task.repeat(|| Region::of_file(&file, MapFlags::PRIVATE)?.unmap())
}
