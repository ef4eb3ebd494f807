//! Touching every page of 128 MB that is newly mapped; each page counts.

use knee_run::{Family, Need, Outcome, Task, TaskError, Testcase, Unit};
use rustix::mm::MapFlags;
use rustix::param::page_size;

use super::region::{LARGE, Region, choose_page_size, own_cached_file};
use crate::choices::{SMALL_PAGES, SYSTEM_PAGES};

/// What [`LARGE`] takes when it is in memory once.
pub(crate) const ONCE: u64 = LARGE as u64;

/// Pages that the page cache has already: nothing is filled or copied.
pub(crate) const MAPPED: Unit = Unit { bytes: 0, ..Unit::PAGES };

pub(super) const TESTCASES: &[Testcase] = &[
    // Original: counts touches; with huge pages "always" one fault serves 512 of them.
    Testcase {
        name: "page_fault1",
        description: "map 128 MB of anonymous memory, write to each page, unmap; counts pages",
        unit: Unit::PAGES,
        needs: &[Need::Memory(ONCE)],
        parameters: &[&[SMALL_PAGES, SYSTEM_PAGES]],
        original: Some(SYSTEM_PAGES),
        ..Testcase::new(Family::Memory, write_anonymous)
    },
    Testcase {
        name: "page_fault2",
        description: "map 128 MB of the task's file privately, write to each page, unmap; counts \
            pages",
        unit: Unit::PAGES,
        // The file in the page cache, and the private copies.
        needs: &[Need::Memory(2 * ONCE)],
        ..Testcase::new(Family::Memory, page_fault2)
    },
    Testcase {
        name: "page_fault3",
        description: "map 128 MB of the task's file as shared, write to each page, unmap; counts \
            pages",
        unit: MAPPED,
        needs: &[Need::Memory(ONCE)],
        ..Testcase::new(Family::Memory, page_fault3)
    },
    // Proposed for will-it-scale as its page_fault4, a name that another testcase has. A fault
    // also maps the neighbours that are in the page cache, 64 KiB in all unless
    // /sys/kernel/debug/fault_around_bytes says otherwise, so not every page counted is a fault.
    Testcase {
        name: "page_fault_read1",
        description: "map 128 MB of the task's file privately, read each page, unmap; counts pages",
        unit: MAPPED,
        needs: &[Need::Memory(ONCE)],
        ..Testcase::new(Family::Memory, page_fault_read1)
    },
    Testcase {
        name: "zero_fill1",
        description: "touch anonymous memory, which the kernel zeroes 4 KiB at a time; counts \
            pages",
        unit: Unit::PAGES,
        needs: &[Need::Memory(ONCE)],
        ..Testcase::new(Family::Memory, write_anonymous)
    },
];

fn page_fault2(task: &Task<'_>) -> Outcome {
    file(task, MapFlags::PRIVATE, write)
}

fn page_fault3(task: &Task<'_>) -> Outcome {
    file(task, MapFlags::SHARED, write)
}

fn page_fault_read1(task: &Task<'_>) -> Outcome {
    file(task, MapFlags::PRIVATE, read)
}

fn write_anonymous(task: &Task<'_>) -> Outcome {
    choose_page_size(task)?;
    touch_pages(task, || Region::anonymous(LARGE), write)
}

fn file(task: &Task<'_>, flags: MapFlags, touch: fn(&Region, usize)) -> Outcome {
    let file = own_cached_file(task, flags)?;
    touch_pages(task, || Region::of_file(&file, flags), touch)
}

#[inline]
fn write(region: &Region, offset: usize) {
    region.write(offset, 0);
}

#[inline]
fn read(region: &Region, offset: usize) {
    region.read(offset);
}

#[inline]
fn touch_pages(
    task: &Task<'_>,
    map: impl Fn() -> Result<Region, TaskError>,
    touch: impl Fn(&Region, usize),
) -> Outcome {
    let page = page_size();
    let mut count = task.start();
    loop {
        let region = map()?;
        for offset in (0..LARGE).step_by(page) {
            touch(&region, offset);
            count.add(1);
        }
        region.unmap()?;
    }
}
