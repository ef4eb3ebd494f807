//! Reading at a position.

use knee_run::{Family, Outcome, Task, Testcase, Whole};
use rustix::fs::OFlags;
use rustix::io;

use super::scratch::{self, BLOCK, Buffer};
use crate::choices::{OWN_FILE, SAME_FILE, SAME_FILE_OWN_PAGE};

const PREAD: Testcase =
    Testcase { prepare: scratch::share_block, ..Testcase::new(Family::File, pread) };

pub(super) const TESTCASES: &[Testcase] = &[
    Testcase {
        name: "pread1",
        description: "pread(4 KiB) at the beginning of a file",
        parameters: &[&[OWN_FILE, SAME_FILE, SAME_FILE_OWN_PAGE]],
        ..PREAD
    },
    Testcase {
        name: "pread2",
        description: "pread1@file=same: all tasks read the same page of one file",
        parameters: &[&[SAME_FILE]],
        ..PREAD
    },
    Testcase {
        name: "pread3",
        description: "pread1@file=same-own-page: each task reads its own page of one file",
        parameters: &[&[SAME_FILE_OWN_PAGE]],
        ..PREAD
    },
];

fn pread(task: &Task<'_>) -> Outcome {
    let file = scratch::open(task, BLOCK, OFlags::empty())?;
    let offset = scratch::offset(task);
    let mut buffer = Buffer::<BLOCK>::new();
    task.repeat(|| io::pread(&file, &mut buffer.0, offset).whole(BLOCK, "pread"))
}
