//! The objects of an experiment's task, and the operations on them.

use std::ffi::CString;
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr;
use std::sync::Arc;

use oorandom::Rand32;
use rustix::fs::{self, Mode, OFlags};
use rustix::io::{Errno, Result, write};
use rustix::mm::{Advice, MapFlags, MprotectFlags, ProtFlags};
use rustix::mm::{madvise, mmap_anonymous, mprotect, munmap};
use rustix::thread::disable_transparent_huge_pages;

use crate::fault;
use crate::layout::{PAGE, PAGES_APART, PAGES_AT};
use crate::returned::Returned;

/// The distance from a task's page to its second page, in bytes. One page table maps both pages.
const NEIGHBOUR: usize = PAGES_APART / 2;
/// The sizes in the testcases `page_fault1` and `mmap_churn1`: the memory in bytes, the number of
/// mappings, and the size of the largest mapping in KiB.
const REGION: usize = 128 << 20;
const MAPS: usize = 1024;
const LARGEST: u32 = 32;

const WRITABLE: ProtFlags = ProtFlags::READ.union(ProtFlags::WRITE);

pub(super) struct Own {
    /// The number of tasks in this address space.
    tasks: usize,
    /// The name of the task's file in the directory that all tasks share.
    pub(super) name: CString,
    /// A second name for the task's file. Between operations, no file has this name.
    pub(super) other: CString,
    file: Option<OwnedFd>,
    /// A file that all tasks have open.
    pub(super) shared: Arc<File>,
    pub(super) ends: Option<(OwnedFd, OwnedFd)>,
    /// The buffer of reads and writes.
    buffer: Box<[u8; PAGE]>,
    /// The address of the task's page.
    at: *mut u8,
    /// The part of the task's region to which the task has not written yet.
    region: Map,
    maps: Vec<Map>,
    random: Rand32,
}

#[derive(Clone, Copy)]
struct Map {
    at: *mut u8,
    bytes: usize,
}

/// Fails unless a whole page was read or written.
pub(super) fn whole(bytes: usize) -> Result<()> {
    if bytes == PAGE { Ok(()) } else { Err(Errno::IO) }
}

/// Writes to memory of a task. Fails if the memory is not mapped.
fn write_byte(at: *mut u8) -> Result<()> {
    match fault::store(at.addr(), 1) {
        Returned::Signal(_) => Err(Errno::FAULT),
        _ => Ok(()),
    }
}

impl Own {
    /// Returns the objects of task `nr`; `tasks` is the number of tasks in its address space.
    pub(super) fn new(nr: usize, tasks: usize, shared: Arc<File>) -> Own {
        let name = |kind| CString::new(format!("{kind}{nr}")).expect("no NUL in it");
        Own {
            tasks,
            name: name("file"),
            other: name("other"),
            file: None,
            shared,
            ends: None,
            buffer: Box::new([7; PAGE]),
            at: (PAGES_AT + nr * PAGES_APART) as *mut u8,
            region: Map { at: ptr::null_mut(), bytes: 0 },
            maps: Vec::new(),
            random: Rand32::new(nr as u64),
        }
    }

    /// Makes the task's file, which is a page long.
    pub(super) fn create(&mut self) -> Result<()> {
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY;
        let file = fs::open(&self.name, flags, Mode::from_raw_mode(0o644))?;
        whole(write(&file, &*self.buffer)?)
    }

    pub(super) fn open(&mut self) -> Result<()> {
        self.file = Some(fs::open(&self.name, OFlags::RDWR, Mode::empty())?);
        Ok(())
    }

    pub(super) fn close(&mut self) -> Result<()> {
        self.file = None;
        Ok(())
    }

    pub(super) fn file(&self) -> Result<BorrowedFd<'_>> {
        self.file.as_ref().map(OwnedFd::as_fd).ok_or(Errno::BADF)
    }

    pub(super) fn file_and_buffer(&mut self) -> Result<(BorrowedFd<'_>, &mut [u8; PAGE])> {
        let file = self.file.as_ref().ok_or(Errno::BADF)?;
        Ok((file.as_fd(), &mut self.buffer))
    }

    fn map_at(at: *mut u8) -> Result<()> {
        // SAFETY: the address is in the range that the agent keeps for tests, which contains no
        // memory of the program.
        unsafe { mmap_anonymous(at.cast(), PAGE, WRITABLE, MapFlags::PRIVATE | MapFlags::FIXED) }
            .map(drop)
    }

    pub(super) fn map_page(&mut self) -> Result<()> {
        Own::map_at(self.at)
    }

    /// Maps and writes a second page, so that the page table of the task's page stays allocated.
    pub(super) fn map_neighbour(&mut self) -> Result<()> {
        let at = self.at.wrapping_add(NEIGHBOUR);
        Own::map_at(at)?;
        write_byte(at)
    }

    pub(super) fn unmap_page(&mut self) -> Result<()> {
        // SAFETY: the page is in the range that is kept for tests.
        unsafe { munmap(self.at.cast(), PAGE) }
    }

    pub(super) fn protect_page(&mut self, protection: MprotectFlags) -> Result<()> {
        // SAFETY: the page is in the range that is kept for tests.
        unsafe { mprotect(self.at.cast(), PAGE, protection) }
    }

    /// Discards the task's page, so that the next access allocates a new one.
    pub(super) fn discard_page(&mut self) -> Result<()> {
        // SAFETY: the page is in the range that is kept for tests.
        unsafe { madvise(self.at.cast(), PAGE, Advice::LinuxDontNeed) }
    }

    pub(super) fn read_page(&mut self) -> Result<()> {
        match fault::load(self.at.addr()) {
            Returned::Signal(_) => Err(Errno::FAULT),
            _ => Ok(()),
        }
    }

    pub(super) fn write_page(&mut self) -> Result<()> {
        write_byte(self.at)
    }

    /// Maps the task's region, without huge pages.
    pub(super) fn map_region(&mut self) -> Result<()> {
        disable_transparent_huge_pages(true)?;
        self.region = Map::new(REGION)?;
        Ok(())
    }

    /// Writes to the next page of the task's region.
    pub(super) fn write_next_page(&mut self) -> Result<()> {
        let Map { at, bytes } = self.region;
        let rest = bytes.checked_sub(PAGE).ok_or(Errno::NOMEM)?;
        write_byte(at)?;
        self.region = Map { at: at.wrapping_add(PAGE), bytes: rest };
        Ok(())
    }

    /// Maps this task's share of the address space's [`MAPS`] mappings.
    pub(super) fn map_share(&mut self) -> Result<()> {
        self.fill((MAPS / self.tasks).max(1))
    }

    /// Maps [`MAPS`] mappings for this task alone.
    pub(super) fn map_many(&mut self) -> Result<()> {
        self.fill(MAPS)
    }

    fn fill(&mut self, maps: usize) -> Result<()> {
        self.maps.reserve(maps);
        for _ in 0..maps {
            let map = self.random_map()?;
            self.maps.push(map);
        }
        Ok(())
    }

    /// Unmaps a random mapping of the task, and maps a new one.
    pub(super) fn churn(&mut self) -> Result<()> {
        let place = self.random.rand_range(0..self.maps.len() as u32) as usize;
        let Map { at, bytes } = self.maps.swap_remove(place);
        // SAFETY: this is a mapping of this task, and there are no references to it.
        unsafe { munmap(at.cast(), bytes)? };
        let map = self.random_map()?;
        self.maps.push(map);
        Ok(())
    }

    fn random_map(&mut self) -> Result<Map> {
        Map::new((self.random.rand_range(1..LARGEST + 1) as usize) << 10)
    }
}

impl Map {
    /// Maps memory at an address that the kernel chooses.
    fn new(bytes: usize) -> Result<Map> {
        // SAFETY: the kernel chooses the address, so no mapping is replaced.
        let at = unsafe { mmap_anonymous(ptr::null_mut(), bytes, WRITABLE, MapFlags::PRIVATE)? };
        Ok(Map { at: at.cast(), bytes })
    }
}
