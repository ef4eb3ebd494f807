//! Moving the offset of an open file: what a system call on a descriptor costs.

use rustix::fs::{OFlags, SeekFrom, seek};

use super::scratch::{self, BLOCK};
use crate::task::{During, Outcome, Task};
use crate::testcase::Variant::{OwnFile, SameFile};
use crate::testcase::{Family, Testcase};

const LSEEK: Testcase =
    Testcase { prepare: scratch::share_block, ..Testcase::new(Family::File, lseek) };

pub(super) const TESTCASES: &[Testcase] = &[
    Testcase {
        name: "lseek1",
        description: "lseek() to the beginning of a file",
        variants: &[OwnFile, SameFile],
        ..LSEEK
    },
    Testcase {
        name: "lseek2",
        description: "lseek1@same-file: all tasks have opened one file, each for itself",
        variants: &[SameFile],
        ..LSEEK
    },
];

fn lseek(task: &Task<'_>) -> Outcome {
    let file = scratch::open(task, BLOCK, OFlags::empty())?;
    task.repeat(|| seek(&file, SeekFrom::Start(0)).during("lseek").map(drop))
}
