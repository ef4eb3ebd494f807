//! Opening a file by its name.

use rustix::fs::{CWD, Mode, OFlags, openat};

use super::place;
use crate::task::{During, Outcome, Task};
use crate::testcase::Variant::{OwnDirectory, SameDirectory, SameFile};
use crate::testcase::{Family, Testcase};
use crate::testcases::file::scratch;

const OPEN: Testcase =
    Testcase { prepare: place::prepare, ..Testcase::new(Family::Directory, open) };

pub(super) const TESTCASES: &[Testcase] = &[
    Testcase {
        name: "open1",
        description: "open() and close() of a file, by a path of two components",
        variants: &[SameDirectory, OwnDirectory, SameFile],
        ..OPEN
    },
    Testcase {
        name: "open2",
        description: "open1@own-directory: each task opens a file in a directory of its own",
        variants: &[OwnDirectory],
        ..OPEN
    },
    Testcase {
        name: "open3",
        description: "open1@same-file: all tasks open and close one file",
        variants: &[SameFile],
        ..OPEN
    },
];

fn open(task: &Task<'_>) -> Outcome {
    let path = place::path(task)?;
    if task.variant() != SameFile {
        scratch::create(&path, 0, OFlags::empty())?;
    }
    let path = place::go_near(task, &path)?;
    task.repeat(|| openat(CWD, &path, OFlags::RDWR, Mode::empty()).during("open").map(drop))
}
