//! Writing at a position by two calls: `lseek`, `write`.

use knee_run::{During, Family, Outcome, Task, Testcase, Whole};
use rustix::fs::{OFlags, SeekFrom, seek};
use rustix::io;

use super::scratch::{self, BLOCK, Buffer};
use crate::choices::{OWN_FILE, SAME_FILE, SAME_FILE_OWN_PAGE};

const WRITESEEK: Testcase =
    Testcase { prepare: scratch::share_block, ..Testcase::new(Family::File, writeseek) };

pub(super) const TESTCASES: &[Testcase] = &[
    Testcase {
        name: "writeseek1",
        description: "lseek() to the beginning of a file and write(4 KiB)",
        parameters: &[&[OWN_FILE, SAME_FILE, SAME_FILE_OWN_PAGE]],
        ..WRITESEEK
    },
    Testcase {
        name: "writeseek2",
        description: "writeseek1@file=same: all tasks write the same page of one file",
        parameters: &[&[SAME_FILE]],
        ..WRITESEEK
    },
    Testcase {
        name: "writeseek3",
        description: "writeseek1@file=same-own-page: each task writes its own page of one file",
        parameters: &[&[SAME_FILE_OWN_PAGE]],
        ..WRITESEEK
    },
];

fn writeseek(task: &Task<'_>) -> Outcome {
    let file = scratch::open(task, BLOCK, OFlags::empty())?;
    let offset = scratch::offset(task);
    let buffer = Buffer::<BLOCK>::new();
    task.repeat(|| {
        seek(&file, SeekFrom::Start(offset)).during("lseek")?;
        io::write(&file, &buffer.0).whole(BLOCK, "write")
    })
}
