//! Touching every page of 128 MB that is newly mapped; each page counts.

use knee_baselines::AddressSpace;
use knee_run::{Need, Outcome, Task, TaskError, Testcase, Unit};
use knee_vm::hosted::Hosted;
use knee_vm::{PAGE, Sharing};

use super::hosted::{hosted, of_any_design};
use super::user::{Region, User};
use crate::memory::page_fault::{MAPPED, ONCE};
use crate::memory::region::LARGE;

pub(super) const TESTCASES: &[Testcase] = &[
    Testcase {
        name: "vm_page_fault1",
        description: "map 128 MB of anonymous memory, write to each page, unmap; counts pages",
        unit: Unit::PAGES,
        needs: &[Need::Threads, Need::Memory(ONCE)],
        ..of_any_design(write_anonymous)
    },
    Testcase {
        name: "vm_page_fault2",
        description: "map 128 MB of the task's memory object privately, write to each page, \
            unmap; counts pages",
        unit: Unit::PAGES,
        // The object and the private copies.
        needs: &[Need::Threads, Need::Memory(2 * ONCE)],
        ..hosted(vm_page_fault2)
    },
    Testcase {
        name: "vm_page_fault3",
        description: "map 128 MB of the task's memory object as shared, write to each page, \
            unmap; counts pages",
        unit: MAPPED,
        needs: &[Need::Threads, Need::Memory(ONCE)],
        ..hosted(vm_page_fault3)
    },
    Testcase {
        name: "vm_page_fault_read1",
        description: "map 128 MB of the task's memory object privately, read each page, unmap; \
            counts pages",
        unit: MAPPED,
        needs: &[Need::Threads, Need::Memory(ONCE)],
        ..hosted(vm_page_fault_read1)
    },
];

fn vm_page_fault2(task: &Task<'_>) -> Outcome {
    object(task, Sharing::Private, write)
}

fn vm_page_fault3(task: &Task<'_>) -> Outcome {
    object(task, Sharing::Shared, write)
}

fn vm_page_fault_read1(task: &Task<'_>) -> Outcome {
    object(task, Sharing::Private, |region, offset| region.read(offset).map(drop))
}

fn write_anonymous(task: &Task<'_>) -> Outcome {
    let user = User::new(task, LARGE)?;
    touch_pages(task, user, |user| user.map(LARGE), write)
}

type Touch<S> = fn(&Region<'_, S>, usize) -> Result<(), TaskError>;

fn object(
    task: &Task<'_>,
    sharing: Sharing,
    touch: Touch<knee_vm::Space<'static, Hosted>>,
) -> Outcome {
    let user = User::with_objects(task, 2 * LARGE);
    let object = user.object_in_memory(LARGE)?;
    touch_pages(task, user, |user| user.map_object(&object, sharing), touch)
}

#[inline]
fn write<S: AddressSpace<'static, Hosted> + ?Sized>(
    region: &Region<'_, S>,
    offset: usize,
) -> Result<(), TaskError> {
    region.write(offset, 0)
}

#[inline]
fn touch_pages<S: AddressSpace<'static, Hosted> + ?Sized>(
    task: &Task<'_>,
    mut user: User<S>,
    map: impl Fn(&User<S>) -> Result<Region<'_, S>, TaskError>,
    touch: impl Fn(&Region<'_, S>, usize) -> Result<(), TaskError>,
) -> Outcome {
    let mut count = user.start(task);
    loop {
        let region = map(&user)?;
        for offset in (0..LARGE).step_by(PAGE) {
            touch(&region, offset)?;
            count.add(1);
        }
        region.unmap()?;
    }
}
