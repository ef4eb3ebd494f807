//! Writing at a position.

use knee_run::{Family, Outcome, Task, Testcase, Whole};
use rustix::fs::OFlags;
use rustix::io;

use super::scratch::{self, BLOCK, Buffer};
use crate::choices::{OWN_FILE, SAME_FILE, SAME_FILE_OWN_PAGE};

const PWRITE: Testcase =
    Testcase { prepare: scratch::share_block, ..Testcase::new(Family::File, pwrite) };

pub(super) const TESTCASES: &[Testcase] = &[
    Testcase {
        name: "pwrite1",
        description: "pwrite(4 KiB) at the beginning of a file",
        parameters: &[&[OWN_FILE, SAME_FILE, SAME_FILE_OWN_PAGE]],
        ..PWRITE
    },
    Testcase {
        name: "pwrite2",
        description: "pwrite1@file=same: all tasks write the same page of one file",
        parameters: &[&[SAME_FILE]],
        ..PWRITE
    },
    Testcase {
        name: "pwrite3",
        description: "pwrite1@file=same-own-page: each task writes its own page of one file",
        parameters: &[&[SAME_FILE_OWN_PAGE]],
        ..PWRITE
    },
];

fn pwrite(task: &Task<'_>) -> Outcome {
    let file = scratch::open(task, BLOCK, OFlags::empty())?;
    let offset = scratch::offset(task);
    let buffer = Buffer::<BLOCK>::new();
    task.repeat(|| io::pwrite(&file, &buffer.0, offset).whole(BLOCK, "pwrite"))
}
