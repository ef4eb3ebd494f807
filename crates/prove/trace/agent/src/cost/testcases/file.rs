//! Reading, writing and allocating files.

use rustix::fs::{self, FallocateFlags};
use rustix::io::{Errno, Result};

use super::step::{Step, on_own_file, on_shared_file};
use crate::cost::own::{Operation, Own};
use crate::layout::PAGE;

/// The maximum size in bytes of the files of testcases such as `read1`, `write1` and `fallocate1`.
const LONG: usize = 1 << 20;
/// The bytes that `fallocate1` allocates at a time.
const ALLOCATED: u64 = 8 << 10;

/// Returns a testcase on a page of the shared file. No other task uses this page.
const fn on_own_page(name: &'static str, about: &'static str, call: Step) -> Operation {
    let set_up: Step = |own| {
        own.open_shared()?;
        own.offset = (own.nr * PAGE) as u64;
        own.pwrite()
    };
    Operation { set_up, ..Operation::plain(name, about, call) }
}

/// Returns a testcase that goes through a file of [`LONG`] bytes page by page.
const fn through(
    name: &'static str,
    about: &'static str,
    open: Step,
    next_page: Step,
) -> Operation {
    Operation {
        set_up: open,
        period: (LONG / PAGE) as u32,
        ..Operation::plain(name, about, next_page)
    }
}

/// Creates and opens a file for a testcase that [`through`] returns.
fn long_file(own: &mut Own) -> Result<()> {
    own.open_own()?;
    fill(own)
}

/// Like `long_file`, but opens and fills the shared file.
fn long_shared_file(own: &mut Own) -> Result<()> {
    own.open_shared()?;
    fill(own)
}

/// Writes the task's file once and reads it twice, as the first passes of a testcase do. Linux marks a page
/// as referenced when it is first accessed, and moves it to the active list at the next access
/// (`mark_page_accessed` in mm/swap.c).
fn fill(own: &mut Own) -> Result<()> {
    for pass in [Own::pwrite, Own::pread, Own::pread] {
        for page in 0..LONG / PAGE {
            own.offset = (page * PAGE) as u64;
            pass(own)?;
        }
    }
    own.offset = 0;
    Ok(())
}

/// Advances `offset` by a page. After the last page, goes back to the beginning of the file.
fn rewind_at_end(own: &mut Own) -> Result<()> {
    own.offset += PAGE as u64;
    if own.offset == LONG as u64 {
        own.offset = 0;
        own.seek()?;
    }
    Ok(())
}

fn read_next(own: &mut Own) -> Result<()> {
    own.read()?;
    rewind_at_end(own)
}

fn write_next(own: &mut Own) -> Result<()> {
    own.write()?;
    rewind_at_end(own)
}

fn seek_and_read(own: &mut Own) -> Result<()> {
    own.seek()?;
    own.read()
}

fn seek_and_write(own: &mut Own) -> Result<()> {
    own.seek()?;
    own.write()
}

/// Returns a testcase that allocates space at the end of the task's file, and truncates the file to 0 bytes
/// when its size reaches [`LONG`].
const fn allocate(name: &'static str) -> Operation {
    let about = "fallocate(8 KiB) at the end of the task's file, which is emptied at 1 MiB";
    let set_up: Step = |own| own.create_empty().and_then(|()| own.open());
    let call: Step = |own| {
        // tmpfs returns EINTR if a signal is pending, and the testcase then tries again.
        while let Err(error) =
            fs::fallocate(own.file()?, FallocateFlags::empty(), own.offset, ALLOCATED)
        {
            if error != Errno::INTR {
                return Err(error);
            }
        }
        own.offset += ALLOCATED;
        if own.offset == LONG as u64 {
            fs::ftruncate(own.file()?, 0)?;
            own.offset = 0;
        }
        Ok(())
    };
    Operation {
        set_up,
        period: (LONG as u64 / ALLOCATED) as u32,
        ..Operation::plain(name, about, call)
    }
}

pub(super) const TESTCASES: &[Operation] = &[
    through("read1", "read(4 KiB) of a 1 MiB file, rewound at its end", long_file, read_next),
    through(
        "read2",
        "read(4 KiB) of a 1 MiB file that all tasks share, rewound at its end",
        long_shared_file,
        read_next,
    ),
    on_own_file("pread1", "pread(4 KiB) at the beginning of the task's own file", Own::pread),
    on_shared_file(
        "pread2",
        "pread(4 KiB) at the beginning of a file that all tasks share",
        Own::pread,
    ),
    on_own_page("pread3", "pread(4 KiB) of the task's own page of a shared file", Own::pread),
    on_own_file("readseek1", "lseek() to the beginning of a file and read(4 KiB)", seek_and_read),
    on_shared_file(
        "readseek2",
        "lseek() to the beginning of a file that all tasks share and read(4 KiB)",
        seek_and_read,
    ),
    on_own_page(
        "readseek3",
        "lseek() to the task's own page of a shared file and read(4 KiB)",
        seek_and_read,
    ),
    through("write1", "write(4 KiB) to a file, rewound after 1 MiB", long_file, write_next),
    on_own_file("pwrite1", "pwrite(4 KiB) at the beginning of the task's own file", Own::pwrite),
    on_shared_file(
        "pwrite2",
        "pwrite(4 KiB) at the beginning of a file that all tasks share",
        Own::pwrite,
    ),
    on_own_page("pwrite3", "pwrite(4 KiB) of the task's own page of a shared file", Own::pwrite),
    on_own_file(
        "writeseek1",
        "lseek() to the beginning of a file and write(4 KiB)",
        seek_and_write,
    ),
    on_shared_file(
        "writeseek2",
        "lseek() to the beginning of a file that all tasks share and write(4 KiB)",
        seek_and_write,
    ),
    on_own_page(
        "writeseek3",
        "lseek() to the task's own page of a shared file and write(4 KiB)",
        seek_and_write,
    ),
    on_own_file("lseek1", "lseek() to the beginning of the task's own file", Own::seek),
    on_shared_file("lseek2", "lseek() to the beginning of a file that all tasks share", Own::seek),
    allocate("fallocate1"),
    allocate("fallocate2"),
    on_own_file("fstat1", "fstat() of the task's own file", |own| fs::fstat(own.file()?).map(drop)),
];
