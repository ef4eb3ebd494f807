//! A map for each fault: the cost for a program that maps memory and uses little of it.

use knee_run::{Family, Outcome, Task, Testcase};
use rustix::param::page_size;

use super::region::{LARGE, Region, choose_page_size};
use crate::choices::{SMALL_PAGES, SYSTEM_PAGES};

pub(super) const TESTCASES: &[Testcase] = &[
    // As in the FreeBSD fork of will-it-scale, whose description calls the page random: it is the
    // next one each time. What Intel proposed under this name is `page_fault_read1`.
    Testcase {
        name: "page_fault4",
        description: "map 128 MB of anonymous memory, write to one page (the next one each time), \
            unmap",
        parameters: &[&[SMALL_PAGES, SYSTEM_PAGES]],
        original: Some(SYSTEM_PAGES),
        ..Testcase::new(Family::Memory, fault)
    },
];

fn fault(task: &Task<'_>) -> Outcome {
    choose_page_size(task)?;
    let page = page_size();
    let mut offset = 0;
    task.repeat(|| {
        let region = Region::anonymous(LARGE)?;
        region.write(offset, 0);
        offset = (offset + page) % LARGE;
        region.unmap()
    })
}
