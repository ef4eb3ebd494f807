//! Reading at a position.

use rustix::fs::OFlags;
use rustix::io;

use super::scratch::{self, BLOCK, Buffer};
use crate::task::{Outcome, Task, Whole};
use crate::testcase::Variant::{OwnFile, SameFile, SameFileOwnPage};
use crate::testcase::{Family, Testcase};

const PREAD: Testcase =
    Testcase { prepare: scratch::share_block, ..Testcase::new(Family::File, pread) };

pub(super) const TESTCASES: &[Testcase] = &[
    Testcase {
        name: "pread1",
        description: "pread(4 KiB) at the beginning of a file",
        variants: &[OwnFile, SameFile, SameFileOwnPage],
        ..PREAD
    },
    Testcase {
        name: "pread2",
        description: "pread1@same-file: all tasks read the same page of one file",
        variants: &[SameFile],
        ..PREAD
    },
    Testcase {
        name: "pread3",
        description: "pread1@same-file-own-page: each task reads its page of one file",
        variants: &[SameFileOwnPage],
        ..PREAD
    },
];

fn pread(task: &Task<'_>) -> Outcome {
    let file = scratch::open(task, BLOCK, OFlags::empty())?;
    let offset = scratch::offset(task);
    let mut buffer = Buffer::<BLOCK>::new();
    task.repeat(|| io::pread(&file, &mut buffer.0, offset).whole(BLOCK, "pread"))
}
