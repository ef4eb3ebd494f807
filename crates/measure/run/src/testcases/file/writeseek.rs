//! Writing at a position by two calls: `lseek`, `write`.

use rustix::fs::{OFlags, SeekFrom, seek};
use rustix::io;

use super::scratch::{self, BLOCK, Buffer};
use crate::task::{During, Outcome, Task, Whole};
use crate::testcase::Variant::{OwnFile, SameFile, SameFileOwnPage};
use crate::testcase::{Family, Testcase};

const WRITESEEK: Testcase =
    Testcase { prepare: scratch::share_block, ..Testcase::new(Family::File, writeseek) };

pub(super) const TESTCASES: &[Testcase] = &[
    Testcase {
        name: "writeseek1",
        description: "lseek() to the beginning of a file and write(4 KiB)",
        variants: &[OwnFile, SameFile, SameFileOwnPage],
        ..WRITESEEK
    },
    Testcase {
        name: "writeseek2",
        description: "writeseek1@same-file: all tasks write the same page of one file",
        variants: &[SameFile],
        ..WRITESEEK
    },
    Testcase {
        name: "writeseek3",
        description: "writeseek1@same-file-own-page: each task writes its page of one file",
        variants: &[SameFileOwnPage],
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
