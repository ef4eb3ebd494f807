//! Writing at a position.

use rustix::fs::OFlags;
use rustix::io;

use super::scratch::{self, BLOCK, Buffer};
use crate::task::{Outcome, Task, Whole};
use crate::testcase::Variant::{OwnFile, SameFile, SameFileOwnPage};
use crate::testcase::{Family, Testcase};

const PWRITE: Testcase =
    Testcase { prepare: scratch::share_block, ..Testcase::new(Family::File, pwrite) };

pub(super) const TESTCASES: &[Testcase] = &[
    Testcase {
        name: "pwrite1",
        description: "pwrite(4 KiB) at the beginning of a file",
        variants: &[OwnFile, SameFile, SameFileOwnPage],
        ..PWRITE
    },
    Testcase {
        name: "pwrite2",
        description: "pwrite1@same-file: all tasks write the same page of one file",
        variants: &[SameFile],
        ..PWRITE
    },
    Testcase {
        name: "pwrite3",
        description: "pwrite1@same-file-own-page: each task writes its page of one file",
        variants: &[SameFileOwnPage],
        ..PWRITE
    },
];

fn pwrite(task: &Task<'_>) -> Outcome {
    let file = scratch::open(task, BLOCK, OFlags::empty())?;
    let offset = scratch::offset(task);
    let buffer = Buffer::<BLOCK>::new();
    task.repeat(|| io::pwrite(&file, &buffer.0, offset).whole(BLOCK, "pwrite"))
}
