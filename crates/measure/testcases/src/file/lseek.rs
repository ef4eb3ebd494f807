//! Moving the offset of an open file: what a system call on a descriptor costs.

use knee_run::{During, Family, Outcome, Task, Testcase};
use rustix::fs::{OFlags, SeekFrom, seek};

use super::scratch::{self, BLOCK};
use crate::choices::{OWN_FILE, SAME_FILE};

const LSEEK: Testcase =
    Testcase { prepare: scratch::share_block, ..Testcase::new(Family::File, lseek) };

pub(super) const TESTCASES: &[Testcase] = &[
    Testcase {
        name: "lseek1",
        description: "lseek() to the beginning of a file",
        parameters: &[&[OWN_FILE, SAME_FILE]],
        ..LSEEK
    },
    Testcase {
        name: "lseek2",
        description: "lseek1@file=same: all tasks seek in one file, which each task opens itself",
        parameters: &[&[SAME_FILE]],
        ..LSEEK
    },
];

fn lseek(task: &Task<'_>) -> Outcome {
    let file = scratch::open(task, BLOCK, OFlags::empty())?;
    task.repeat(|| seek(&file, SeekFrom::Start(0)).during("lseek").map(drop))
}
