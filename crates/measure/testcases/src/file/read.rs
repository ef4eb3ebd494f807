//! Reading through a file, from the page cache or past it.
//!
//! will-it-scale notices the end of the file by a read that returns nothing, and counts it. Here
//! the file is rewound in time, so every count is a read of data; the rewinding, once in 256
//! reads, is not counted in either.

use knee_run::{During, Family, Need, Outcome, Task, Testcase, Whole};
use rustix::fs::{OFlags, SeekFrom, seek};
use rustix::io;
use rustix::param::page_size;

use super::scratch::{self, BLOCK, Buffer, LONG};
use crate::choices::{OWN_FILE, SAME_FILE};

const CACHED: Testcase = Testcase {
    prepare: |setup| scratch::share(setup, LONG, OFlags::empty()),
    ..Testcase::new(Family::File, read_cached)
};

/// The file is written with `O_DIRECT` too. will-it-scale's read4 leaves it in the page cache,
/// which every direct read then searches for dirty pages.
const DIRECT: Testcase = Testcase {
    needs: &[Need::DirectIo],
    prepare: |setup| scratch::share(setup, LONG, OFlags::DIRECT),
    ..Testcase::new(Family::File, read_direct)
};

pub(super) const TESTCASES: &[Testcase] = &[
    Testcase {
        name: "read1",
        description: "read(4 KiB) of a 1 MiB file, rewound at its end",
        parameters: &[&[OWN_FILE, SAME_FILE]],
        ..CACHED
    },
    Testcase {
        name: "read2",
        description: "read1@file=same: read(4 KiB); all tasks read the same 1 MiB file",
        parameters: &[&[SAME_FILE]],
        ..CACHED
    },
    Testcase {
        name: "read3",
        description: "read(one page) of a 1 MiB file with O_DIRECT, bypassing the page cache",
        parameters: &[&[OWN_FILE, SAME_FILE]],
        ..DIRECT
    },
    Testcase {
        name: "read4",
        description: "read3@file=same: read(one page) with O_DIRECT; all tasks read the same file",
        parameters: &[&[SAME_FILE]],
        ..DIRECT
    },
];

fn read_cached(task: &Task<'_>) -> Outcome {
    read(task, BLOCK, OFlags::empty())
}

fn read_direct(task: &Task<'_>) -> Outcome {
    read(task, page_size(), OFlags::DIRECT)
}

/// The largest page that Linux runs with.
const LARGEST_PAGE: usize = 64 << 10;

fn read(task: &Task<'_>, bytes: usize, flags: OFlags) -> Outcome {
    let file = scratch::open(task, LONG, flags)?;
    let mut buffer = Buffer::<LARGEST_PAGE>::new();
    let buffer = &mut buffer.0[..bytes];
    let mut left = LONG;
    task.repeat(|| {
        io::read(&file, &mut *buffer).whole(bytes, "read")?;
        left -= bytes;
        if left == 0 {
            seek(&file, SeekFrom::Start(0)).during("lseek")?;
            left = LONG;
        }
        Ok(())
    })
}
