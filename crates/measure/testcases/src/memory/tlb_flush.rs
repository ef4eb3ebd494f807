//! Writing to a page, giving it back with `MADV_DONTNEED` and reading it again; each page counts.
//!
//! Giving back a page whose translation may be cached requires a TLB flush on every CPU where a
//! thread of the process runs.

use knee_run::{Family, Need, Outcome, Task, TaskError, Testcase, Unit};
use rustix::mm::{Advice, MapFlags};
use rustix::param::page_size;

use super::region::{LARGE, Region, choose_page_size, own_cached_file};
use crate::choices::{SMALL_PAGES, SYSTEM_PAGES};

/// Pages, without bytes, because hardly any data is filled or moved.
pub(crate) const UNIT: Unit = Unit { bytes: 0, ..Unit::PAGES };
/// Bytes of anonymous memory that `tlb_flush2` maps at a time.
pub(crate) const SMALL: usize = 1 << 20;

pub(super) const TESTCASES: &[Testcase] = &[
    Testcase {
        name: "tlb_flush1",
        description: "write to a page of a private file mapping, discard the page, read it; counts pages",
        unit: UNIT,
        needs: &[Need::Memory(LARGE as u64)],
        ..Testcase::new(Family::Memory, tlb_flush1)
    },
    // Original: where huge pages are on, the map may become part of one with its neighbours.
    Testcase {
        name: "tlb_flush2",
        description: "write to a page of anonymous memory, discard the page, read it; counts pages",
        unit: UNIT,
        parameters: &[&[SMALL_PAGES, SYSTEM_PAGES]],
        original: Some(SYSTEM_PAGES),
        ..Testcase::new(Family::Memory, anonymous)
    },
    Testcase {
        name: "tlb_flush3",
        description: "write to a page of a shared file mapping, discard the page, read it; counts pages",
        unit: UNIT,
        needs: &[Need::Memory(LARGE as u64)],
        ..Testcase::new(Family::Memory, tlb_flush3)
    },
];

fn tlb_flush1(task: &Task<'_>) -> Outcome {
    file(task, MapFlags::PRIVATE, 0)
}

fn tlb_flush3(task: &Task<'_>) -> Outcome {
    file(task, MapFlags::SHARED, 1)
}

fn anonymous(task: &Task<'_>) -> Outcome {
    choose_page_size(task)?;
    flush_pages(task, SMALL, 0, || Region::anonymous(SMALL))
}

fn file(task: &Task<'_>, flags: MapFlags, left: u8) -> Outcome {
    let file = own_cached_file(task, flags)?;
    flush_pages(task, LARGE, left, || Region::of_file(&file, flags))
}

/// `left` is the content of a page after 1 was written to it and it was given back.
#[inline]
fn flush_pages(
    task: &Task<'_>,
    bytes: usize,
    left: u8,
    map: impl Fn() -> Result<Region, TaskError>,
) -> Outcome {
    let page = page_size();
    let mut count = task.start();
    loop {
        let region = map()?;
        for offset in (0..bytes).step_by(page) {
            region.write(offset, 1);
            region.advise(offset, page, Advice::LinuxDontNeed)?;
            if region.read(offset) != left {
                return Err(TaskError::found("a page has the wrong content after MADV_DONTNEED"));
            }
            count.add(1);
        }
        region.unmap()?;
    }
}
