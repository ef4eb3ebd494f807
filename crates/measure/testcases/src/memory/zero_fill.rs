//! Zero fill with transparent huge pages; with small ones it is what [`page_fault`] does.
//!
//! [`page_fault`]: super::page_fault

use knee_run::{Family, Need, Outcome, Task, Testcase, Unit};
use rustix::mm::Advice;
use rustix::param::page_size;

use super::region::{LARGE, Region};

pub(super) const TESTCASES: &[Testcase] = &[Testcase {
    name: "zero_fill2",
    description: "touch anonymous memory, which the kernel zeroes 2 MiB at a time; counts 4 KiB \
        pages",
    unit: Unit::PAGES,
    needs: &[Need::HugePages, Need::Memory(LARGE as u64)],
    ..Testcase::new(Family::Memory, huge)
}];

/// A huge page of x86-64, and of AArch64 with 4 KiB pages.
const HUGE_PAGE: usize = 2 << 20;

fn huge(task: &Task<'_>) -> Outcome {
    let page = page_size();
    let mut count = task.start();
    loop {
        // Kernels before 6.7 do not align large maps by themselves.
        let region = Region::anonymous(LARGE + HUGE_PAGE)?;
        let first = region.offset_aligned(HUGE_PAGE);
        region.advise(first, LARGE, Advice::LinuxHugepage)?;
        for offset in (first..first + LARGE).step_by(page) {
            region.write(offset, 0);
            count.add(1);
        }
        region.unmap()?;
    }
}
