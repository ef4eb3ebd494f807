//! Reading at a position by two calls: `lseek`, `read`.

use rustix::fs::{OFlags, SeekFrom, seek};
use rustix::io;

use super::scratch::{self, BLOCK, Buffer};
use crate::task::{During, Outcome, Task, Whole};
use crate::testcase::Variant::{OwnFile, SameFile, SameFileOwnPage};
use crate::testcase::{Family, Testcase};

const READSEEK: Testcase =
    Testcase { prepare: scratch::share_block, ..Testcase::new(Family::File, readseek) };

pub(super) const TESTCASES: &[Testcase] = &[
    Testcase {
        name: "readseek1",
        description: "lseek() to the beginning of a file and read(4 KiB)",
        variants: &[OwnFile, SameFile, SameFileOwnPage],
        ..READSEEK
    },
    Testcase {
        name: "readseek2",
        description: "readseek1@same-file: all tasks read the same page of one file",
        variants: &[SameFile],
        ..READSEEK
    },
    Testcase {
        name: "readseek3",
        description: "readseek1@same-file-own-page: each task reads its page of one file",
        variants: &[SameFileOwnPage],
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
