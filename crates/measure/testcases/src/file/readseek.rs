//! Reading at a position by two calls: `lseek`, `read`.

use knee_run::{During, Family, Outcome, Task, Testcase, Whole};
use rustix::fs::{OFlags, SeekFrom, seek};
use rustix::io;

use super::scratch::{self, BLOCK, Buffer};
use crate::choices::{OWN_FILE, SAME_FILE, SAME_FILE_OWN_PAGE};

const READSEEK: Testcase =
    Testcase { prepare: scratch::share_block, ..Testcase::new(Family::File, readseek) };

pub(super) const TESTCASES: &[Testcase] = &[
    Testcase {
        name: "readseek1",
        description: "lseek() to the beginning of a file and read(4 KiB)",
        parameters: &[&[OWN_FILE, SAME_FILE, SAME_FILE_OWN_PAGE]],
        ..READSEEK
    },
    Testcase {
        name: "readseek2",
        description: "readseek1@file=same: all tasks read the same page of one file",
        parameters: &[&[SAME_FILE]],
        ..READSEEK
    },
    Testcase {
        name: "readseek3",
        description: "readseek1@file=same-own-page: each task reads its own page of one file",
        parameters: &[&[SAME_FILE_OWN_PAGE]],
        ..READSEEK
    },
];

fn readseek(task: &Task<'_>) -> Outcome {
    let file = scratch::open(task, BLOCK, OFlags::empty())?;
    let offset = scratch::offset(task);
    let mut buffer = Buffer::<BLOCK>::new();
    task.repeat(|| {
        seek(&file, SeekFrom::Start(offset)).during("lseek")?;
        io::read(&file, &mut buffer.0).whole(BLOCK, "read")
    })
}
