//! A mapping that a testcase creates, touches and unmaps. All unsafe calls of this family on
//! mappings are here.

use std::ffi::c_void;
use std::fs::{self, File};

use knee_run::{During, Task, TaskError};
use rustix::mm::{
    Advice, MapFlags, MprotectFlags, ProtFlags, madvise, mmap, mmap_anonymous, mprotect, munmap,
};
use rustix::param::page_size;
use rustix::thread::disable_transparent_huge_pages;

use crate::choices::SYSTEM_PAGES;

/// What the testcases of will-it-scale map.
pub(crate) const LARGE: usize = 128 << 20;

const READ_WRITE: ProtFlags = ProtFlags::READ.union(ProtFlags::WRITE);

/// Readable and writable memory. Dropping it leaks it, as a loop that fails does: its process
/// ends.
pub(super) struct Region {
    base: *mut u8,
    len: usize,
}

impl Region {
    /// New private anonymous memory.
    #[inline]
    pub(super) fn anonymous(len: usize) -> Result<Self, TaskError> {
        // SAFETY: the kernel chooses the address, so no existing mapping is replaced.
        let base =
            unsafe { mmap_anonymous(std::ptr::null_mut(), len, READ_WRITE, MapFlags::PRIVATE) };
        Ok(Self { base: base.during("mmap")?.cast(), len })
    }

    /// New private anonymous memory at `address`, which must be free.
    #[inline]
    pub(super) fn anonymous_at(address: usize, len: usize) -> Result<Self, TaskError> {
        let wanted = std::ptr::without_provenance_mut::<c_void>(address);
        // SAFETY: MAP_FIXED_NOREPLACE replaces no existing mapping; a kernel that is too old to
        // know it takes the address as a hint, and then replaces none either.
        let base = unsafe {
            mmap_anonymous(wanted, len, READ_WRITE, MapFlags::PRIVATE | MapFlags::FIXED_NOREPLACE)
        };
        let base = base.during("mmap at a fixed address")?;
        if base != wanted {
            return Err(TaskError::found(
                "mmap at a fixed address: the kernel chose another address",
            ));
        }
        Ok(Self { base: base.cast(), len })
    }

    /// The first [`LARGE`] bytes of `file`, `MapFlags::PRIVATE` or `SHARED`.
    #[inline]
    pub(super) fn of_file(file: &File, flags: MapFlags) -> Result<Self, TaskError> {
        // SAFETY: the kernel chooses the address, so no existing mapping is replaced. What others
        // do to the file does not matter: all access is volatile, and any byte is a valid `u8`.
        let base = unsafe { mmap(std::ptr::null_mut(), LARGE, READ_WRITE, flags, file, 0) };
        Ok(Self { base: base.during("mmap of a file")?.cast(), len: LARGE })
    }

    #[inline]
    fn byte(&self, offset: usize) -> *mut u8 {
        assert!(offset < self.len);
        // SAFETY: in bounds of the mapping, as just checked.
        unsafe { self.base.add(offset) }
    }

    /// Stores a byte; the compiler can neither drop nor merge it.
    #[inline]
    pub(super) fn write(&self, offset: usize, value: u8) {
        // SAFETY: `byte` lies in a writable mapping that lasts until `unmap` takes `self`; no
        // reference into it is ever made, and no other thread knows of it.
        unsafe { self.byte(offset).write_volatile(value) }
    }

    /// Loads a byte; the compiler can neither drop nor merge it.
    #[inline]
    pub(super) fn read(&self, offset: usize) -> u8 {
        // SAFETY: as in `write`; every mapping here is readable, and zero where never written.
        unsafe { self.byte(offset).read_volatile() }
    }

    /// `madvise` on `len` bytes from `offset`.
    #[inline]
    pub(super) fn advise(&self, offset: usize, len: usize, what: Advice) -> Result<(), TaskError> {
        assert!(len <= self.len - offset.min(self.len));
        // SAFETY: the range lies in this mapping, which holds bytes that are only accessed through
        // `read` and `write`; whatever an advice makes of them are valid bytes.
        unsafe { madvise(self.base.add(offset).cast(), len, what) }.during("madvise")
    }

    /// `mprotect` of it all, to read, and to write if `is_writable`.
    ///
    /// A write while it is not is SIGSEGV.
    #[inline]
    pub(super) fn protect(&self, is_writable: bool) -> Result<(), TaskError> {
        let flags = if is_writable {
            MprotectFlags::READ | MprotectFlags::WRITE
        } else {
            MprotectFlags::READ
        };
        // SAFETY: the range is this mapping, to whose bytes there are no references.
        unsafe { mprotect(self.base.cast(), self.len, flags) }.during("mprotect")
    }

    /// Where the first multiple of `alignment` is in it.
    pub(super) fn offset_aligned(&self, alignment: usize) -> usize {
        self.base.addr().next_multiple_of(alignment) - self.base.addr()
    }

    /// Unmaps it all.
    #[inline]
    pub(super) fn unmap(self) -> Result<(), TaskError> {
        // SAFETY: the mapping is ours alone and `self` is gone, so nobody can touch it any more.
        unsafe { munmap(self.base.cast(), self.len) }.during("munmap")
    }
}

/// A file of [`LARGE`] bytes, all of it a hole, of this task alone and without a name.
pub(super) fn own_sparse_file(task: &Task<'_>) -> Result<File, TaskError> {
    let path = task.own_path("sparse");
    let file = File::options()
        .read(true)
        .write(true)
        .create_new(true)
        .open(&path)
        .during("create a file")?;
    fs::remove_file(&path).during("unlink")?;
    file.set_len(LARGE as u64).during("ftruncate")?;
    Ok(file)
}

/// The same with every page in the page cache and, if it is to be mapped shared, written to: the
/// first pass over a file is another thing than all that follow. (will-it-scale has it in the six
/// seconds that it throws away.)
pub(super) fn own_cached_file(task: &Task<'_>, flags: MapFlags) -> Result<File, TaskError> {
    let file = own_sparse_file(task)?;
    let region = Region::of_file(&file, flags)?;
    for offset in (0..LARGE).step_by(page_size()) {
        if flags.contains(MapFlags::SHARED) {
            region.write(offset, 0);
        } else {
            region.read(offset);
        }
    }
    region.unmap()?;
    Ok(file)
}

/// Turns transparent huge pages off for this process, unless `pages=system` leaves that to the
/// system. This happens once per process, so that no `madvise` for each map is measured.
pub(super) fn choose_page_size(task: &Task<'_>) -> Result<(), TaskError> {
    if task.has(SYSTEM_PAGES) {
        return Ok(());
    }
    disable_transparent_huge_pages(true).during("prctl(PR_SET_THP_DISABLE)")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_keeps_its_value_until_it_is_discarded() {
        let page = page_size();
        let region = Region::anonymous(2 * page).unwrap();
        region.write(page, 7);
        assert_eq!((region.read(0), region.read(page)), (0, 7));
        region.advise(page, page, Advice::LinuxDontNeed).unwrap();
        assert_eq!(region.read(page), 0);
        region.unmap().unwrap();
    }

    #[test]
    fn mapping_a_fixed_address_in_use_fails_and_leaves_it_unchanged() {
        let taken = Region::anonymous(page_size()).unwrap();
        taken.write(0, 1);
        assert!(Region::anonymous_at(taken.base.addr(), taken.len).is_err());
        assert_eq!(taken.read(0), 1);
        taken.unmap().unwrap();
    }

    #[test]
    #[should_panic]
    fn nothing_is_touched_beyond_the_end() {
        Region::anonymous(4096).unwrap().write(4096, 0);
    }
}
