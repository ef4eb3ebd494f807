//! Writing to a page, giving it back and reading it again; each page counts.
//!
//! Discarding a page flushes it from the TLBs of the CPUs that have used the space: all with a
//! task.

use knee_baselines::AddressSpace;
use knee_run::{Need, Outcome, Task, TaskError, Testcase};
use knee_vm::hosted::Hosted;
use knee_vm::{PAGE, Sharing};

use super::hosted::{hosted, of_any_design};
use super::user::{Region, User};
use crate::memory::region::LARGE;
use crate::memory::tlb_flush::{SMALL, UNIT};

pub(super) const TESTCASES: &[Testcase] = &[
    Testcase {
        name: "vm_tlb_flush1",
        description: "write to, discard and read a page of a privately mapped object; counts pages",
        unit: UNIT,
        needs: &[Need::Threads, Need::Memory(LARGE as u64)],
        ..hosted(vm_tlb_flush1)
    },
    Testcase {
        name: "vm_tlb_flush2",
        description: "write to, discard and read a page of anonymous memory; counts pages",
        unit: UNIT,
        ..of_any_design(anonymous)
    },
    Testcase {
        name: "vm_tlb_flush3",
        description: "write to, discard and read a page of an object mapped as shared; counts \
            pages",
        unit: UNIT,
        needs: &[Need::Threads, Need::Memory(LARGE as u64)],
        ..hosted(vm_tlb_flush3)
    },
];

fn vm_tlb_flush1(task: &Task<'_>) -> Outcome {
    object(task, Sharing::Private, 0)
}

fn vm_tlb_flush3(task: &Task<'_>) -> Outcome {
    object(task, Sharing::Shared, 1)
}

fn anonymous(task: &Task<'_>) -> Outcome {
    let user = User::new(task, SMALL)?;
    flush_pages(task, user, SMALL, 0, |user| user.map(SMALL))
}

fn object(task: &Task<'_>, sharing: Sharing, left: u64) -> Outcome {
    let user = User::with_objects(task, LARGE);
    let object = user.object_in_memory(LARGE)?;
    flush_pages(task, user, LARGE, left, |user| user.map_object(&object, sharing))
}

/// `left` is the content of a page after 1 was written to it and it was discarded.
#[inline]
fn flush_pages<S: AddressSpace<'static, Hosted> + ?Sized>(
    task: &Task<'_>,
    mut user: User<S>,
    bytes: usize,
    left: u64,
    map: impl Fn(&User<S>) -> Result<Region<'_, S>, TaskError>,
) -> Outcome {
    let mut count = user.start(task);
    loop {
        let region = map(&user)?;
        for offset in (0..bytes).step_by(PAGE) {
            region.write(offset, 1)?;
            region.discard(offset)?;
            if region.read(offset)? != left {
                return Err(TaskError::found(
                    "a page has the wrong content after it was discarded",
                ));
            }
            count.add(1);
        }
        region.unmap()?;
    }
}
