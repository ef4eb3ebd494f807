//! Mapping, touching and unmapping memory.
//!
//! If a testcase touches 128 MB, one page after the other, it has one operation for each page. The set-up
//! maps the memory.

use std::ptr;

use rustix::fs;
use rustix::io::{Errno, Result};
use rustix::mm::{Advice, MapFlags, madvise};
use rustix::thread::disable_transparent_huge_pages;

use super::step::Step;
use crate::cost::own::{Operation, Own};
use crate::cost::region::Region;
use crate::layout::PAGE;

/// The size in bytes of most mappings.
const LARGE: usize = 128 << 20;
/// The size in bytes of the mapping that `tlb_flush2` uses.
const SMALL: usize = 1 << 20;
/// The number of pages that are mapped at once by a read fault on a file (`fault_around_bytes` in
/// mm/memory.c). This is the default, which can be changed in /sys/kernel/debug/fault_around_bytes.
const FAULT_AROUND: usize = 16;
/// For `mmap_disjoint1`: the size of a mapping, the distance between the mappings of two tasks, and the
/// address of the first mapping.
const DISJOINT: usize = 64 << 10;
const ZONE: usize = 1 << 30;
const FIRST_ZONE: usize = 64 << 30;
/// The distance between the heap of the C library and the page that `brk1` or `brk2` maps.
const GAP: usize = 1 << 20;

/// The maximum number of pages that a set-up allocates in order to empty a CPU's free lists.
const MOST_DRAINED: usize = 4096;
/// The period of testcases in which each operation allocates a page. Before Linux 6.7, a CPU's free lists are
/// refilled with 63 pages at a time. Since Linux 6.7, they are refilled with up to 2016 pages at a time.
const REFILLED: u32 = 1024;

const PAGE_FAULT1: Operation = Operation {
    set_up: |own| {
        let Operation { set_up, call, .. } = Operation::PAGE_FAULT1;
        set_up(own)?;
        (0..free_pages(own)?).try_for_each(|_| call(own))
    },
    period: REFILLED,
    ..Operation::PAGE_FAULT1
};

/// Returns a testcase on a mapping of the task's file. Each operation uses the next page.
const fn on_file(name: &'static str, about: &'static str, set_up: Step, call: Step) -> Operation {
    Operation { set_up, ..Operation::plain(name, about, call) }
}

/// Maps a file of [`LARGE`] bytes. The page cache then contains the last page and the pages that the task
/// will touch, as it does after the first pass of the testcase. If the mapping is shared, these pages are
/// also dirty.
fn map_cached_file(own: &mut Own, flags: MapFlags) -> Result<()> {
    sparse_file(own)?;
    let mut region = Region::of_file(own.file()?, LARGE, flags)?;
    let pages = (own.rounds as usize + 1).next_multiple_of(FAULT_AROUND).min(LARGE / PAGE);
    for page in (0..pages).chain([LARGE / PAGE - 1]) {
        match flags.contains(MapFlags::SHARED) {
            true => region.write(page * PAGE, 0)?,
            false => region.read(page * PAGE).map(drop)?,
        }
    }
    region.unmap()?;
    own.region = Region::of_file(own.file()?, LARGE, flags)?;
    Ok(())
}

fn map_cached_privately(own: &mut Own) -> Result<()> {
    map_cached_file(own, MapFlags::PRIVATE)
}

/// Like `map_cached_privately`, but also empties the CPU's free lists.
fn map_cached_privately_and_drain(own: &mut Own) -> Result<()> {
    map_cached_privately(own)?;
    // A huge page would not come from these lists.
    disable_transparent_huge_pages(true)?;
    let pages = free_pages(own)?;
    // The region stays mapped: if it were unmapped, its pages would return to the lists.
    let mut region = Region::anonymous((pages + 1) * PAGE)?;
    while let Some(offset) = region.next_page() {
        region.write(offset, 0)?;
    }
    Ok(())
}

/// The number of pages in the free lists of the task's CPU, at most [`MOST_DRAINED`]. Earlier experiments
/// have freed these pages. After a task has allocated this many pages, the lists are refilled as often as in
/// the testcase.
fn free_pages(own: &Own) -> Result<usize> {
    let text = std::fs::read_to_string("/proc/zoneinfo")
        .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
    Ok(listed(&text, own.nr).min(MOST_DRAINED))
}

/// The number of pages in the free lists of a CPU, from the text of /proc/zoneinfo. There, each zone has a
/// line `cpu: N` for each CPU, followed by a line `count: PAGES`.
fn listed(zoneinfo: &str, cpu: usize) -> usize {
    let number = |line: &str, key: &str| line.trim().strip_prefix(key)?.trim().parse().ok();
    let lines = zoneinfo.lines().zip(zoneinfo.lines().skip(1));
    let counts = lines.filter(|(line, _)| number(line, "cpu:") == Some(cpu));
    counts.filter_map(|(_, next)| number(next, "count:")).sum()
}

fn map_cached_shared(own: &mut Own) -> Result<()> {
    map_cached_file(own, MapFlags::SHARED)
}

/// Creates, opens and unlinks a sparse file of [`LARGE`] bytes.
fn sparse_file(own: &mut Own) -> Result<()> {
    own.create_empty()?;
    own.open()?;
    fs::unlink(&own.name)?;
    fs::ftruncate(own.file()?, LARGE as u64)
}

fn write_next(own: &mut Own) -> Result<()> {
    let offset = own.region.next_page().ok_or(Errno::NOMEM)?;
    own.region.write(offset, 0)
}

fn read_next(own: &mut Own) -> Result<()> {
    let offset = own.region.next_page().ok_or(Errno::NOMEM)?;
    own.region.read(offset).map(drop)
}

/// Writes to the next page, discards the page, and reads a byte from it. This byte must be `left`.
fn flush_next(own: &mut Own, left: u8) -> Result<()> {
    let offset = own.region.next_page().ok_or(Errno::NOMEM)?;
    own.region.write(offset, 1)?;
    own.region.discard(offset)?;
    if own.region.read(offset)? == left { Ok(()) } else { Err(Errno::IO) }
}

/// Does the same in a small region of anonymous memory. After the last page, replaces the region with a new
/// one.
fn flush_next_of_small(own: &mut Own) -> Result<()> {
    flush_next(own, 0)?;
    if own.region.is_used_up() {
        own.region.unmap()?;
        own.region = Region::anonymous(SMALL)?;
    }
    Ok(())
}

/// Maps 128 MB, writes to one page of it, and unmaps it. Each operation uses the next page.
fn fault_in_new_region(own: &mut Own) -> Result<()> {
    let mut region = Region::anonymous(LARGE)?;
    region.write(own.offset as usize, 0)?;
    own.offset = (own.offset + PAGE as u64) % LARGE as u64;
    region.unmap()
}

fn map_far_away(own: &mut Own) -> Result<()> {
    let mut region = Region::anonymous_at(FIRST_ZONE + own.nr * ZONE, DISJOINT)?;
    while let Some(offset) = region.next_page() {
        region.write(offset, 0)?;
    }
    region.unmap()
}

/// Raises the break to a base that is at least [`GAP`] bytes above the heap. If `is_apart`, the page above
/// this base gets a mapping of its own.
fn claim_break(own: &mut Own, is_apart: bool) -> Result<()> {
    // SAFETY: an increment of 0 only returns the end of the heap.
    let end = unsafe { libc::sbrk(0) };
    if end.addr() == usize::MAX {
        return Err(Errno::NOMEM);
    }
    let gap = end.addr().next_multiple_of(PAGE);
    own.region.at = gap + GAP;
    set_break(own.region.at)?;
    if is_apart {
        // Mappings with different flags are never merged.
        // SAFETY: this only decides what a core dump contains.
        unsafe { madvise(ptr::without_provenance_mut(gap), GAP, Advice::LinuxDontDump)? };
    }
    Ok(())
}

fn move_break(own: &mut Own) -> Result<()> {
    set_break(own.region.at + PAGE)?;
    set_break(own.region.at)
}

/// Sets the break. `to` must not be below a base that [`claim_break`] has set.
fn set_break(to: usize) -> Result<()> {
    // SAFETY: the gap lies between the heap of the C library and the base. So this call unmaps only memory
    // that nothing uses: the page above the base or, with threads, the gap of another task.
    let at = unsafe { libc::syscall(libc::SYS_brk, to) };
    if at as usize == to { Ok(()) } else { Err(Errno::NOMEM) }
}

/// Returns a testcase that moves the break.
const fn brk(name: &'static str, about: &'static str, set_up: Step) -> Operation {
    Operation { set_up, iterations: 2, ..Operation::plain(name, about, move_break) }
}

pub(super) const TESTCASES: &[Operation] = &[
    brk("brk1", "brk() up by a page, which creates a mapping, and down again", |own| {
        claim_break(own, true)
    }),
    brk("brk2", "brk() up by a page, which extends a mapping, and down again", |own| {
        claim_break(own, false)
    }),
    // glibc maps a page more than the memory that a program asks for.
    Operation::plain("malloc1", "malloc() and free() of 128 MB, as glibc does it", |_| {
        Region::anonymous(LARGE + PAGE)?.unmap()
    }),
    Operation::plain("mmap1", "mmap() and munmap() of 128 MB of anonymous memory", |_| {
        Region::anonymous(LARGE)?.unmap()
    }),
    Operation {
        set_up: sparse_file,
        ..Operation::plain("mmap2", "mmap() and munmap() of 128 MB of a file, privately", |own| {
            Region::of_file(own.file()?, LARGE, MapFlags::PRIVATE)?.unmap()
        })
    },
    PAGE_FAULT1,
    Operation { name: "zero_fill1", ..PAGE_FAULT1 },
    Operation {
        period: REFILLED,
        ..on_file(
            "page_fault2",
            "write to the next page of a private mapping of a file",
            map_cached_privately_and_drain,
            write_next,
        )
    },
    on_file(
        "page_fault3",
        "write to the next page of a shared mapping of a file",
        map_cached_shared,
        write_next,
    ),
    Operation {
        period: FAULT_AROUND as u32,
        ..on_file(
            "page_fault_read1",
            "read the next page of a private mapping of a file",
            map_cached_privately,
            read_next,
        )
    },
    Operation {
        set_up: |_| disable_transparent_huge_pages(true),
        ..Operation::plain(
            "page_fault4",
            "map 128 MB of memory, write to one page (the next one each time), unmap",
            fault_in_new_region,
        )
    },
    on_file(
        "tlb_flush1",
        "write to the next page of a private mapping of a file, discard the page, read it",
        map_cached_privately,
        |own| flush_next(own, 0),
    ),
    Operation {
        set_up: |own| {
            disable_transparent_huge_pages(true)?;
            own.region = Region::anonymous(SMALL)?;
            Ok(())
        },
        period: (SMALL / PAGE) as u32,
        ..Operation::plain(
            "tlb_flush2",
            "write to the next page of anonymous memory, discard the page, read it",
            flush_next_of_small,
        )
    },
    on_file(
        "tlb_flush3",
        "write to the next page of a shared mapping of a file, discard the page, read it",
        map_cached_shared,
        |own| flush_next(own, 1),
    ),
    Operation::MMAP_CHURN1,
    Operation::MMAP_CHURN2,
    Operation {
        set_up: |_| disable_transparent_huge_pages(true),
        ..Operation::plain(
            "mmap_disjoint1",
            "map 64 KiB far from other tasks' mappings, write to each page, unmap",
            map_far_away,
        )
    },
    Operation {
        set_up: |own| {
            own.region = Region::anonymous(PAGE)?;
            own.region.write(0, 1)
        },
        ..Operation::plain(
            "mprotect_flip1",
            "mprotect() the task's own page to read-only and back; write to the page",
            |own| {
                own.region.protect(false)?;
                own.region.protect(true)?;
                own.region.write(0, 1)
            },
        )
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_free_pages_of_a_cpu_are_those_of_all_zones() {
        let zone = |pages: [usize; 2]| {
            let of = |(cpu, pages)| format!("    cpu: {cpu}\n              count: {pages}\n");
            let cpus: String = pages.into_iter().enumerate().map(of).collect();
            format!("Node 0, zone DMA\n  pages free 3840\n  pagesets\n{cpus}  start_pfn: 1\n")
        };
        let text = zone([0, 7]) + &zone([378, 30]);
        assert_eq!([0, 1, 2].map(|cpu| listed(&text, cpu)), [378, 37, 0]);
    }
}
