//! Opening a file by its name.

use knee_run::{During, Family, Outcome, Task, Testcase};
use rustix::fs::{CWD, Mode, OFlags, openat};

use super::place;
use crate::choices::{OWN_DIRECTORY, SAME_DIRECTORY, SAME_NAME};
use crate::file::scratch;

const OPEN: Testcase =
    Testcase { prepare: place::prepare, ..Testcase::new(Family::Directory, open) };

pub(super) const TESTCASES: &[Testcase] = &[
    Testcase {
        name: "open1",
        description: "open() and close() of a file, named by a path of two components",
        parameters: &[&[SAME_DIRECTORY, OWN_DIRECTORY, SAME_NAME]],
        ..OPEN
    },
    Testcase {
        name: "open2",
        description: "open1@path=own-directory: each task opens a file in its own directory",
        parameters: &[&[OWN_DIRECTORY]],
        ..OPEN
    },
    Testcase {
        name: "open3",
        description: "open1@path=same-file: all tasks open and close one file",
        parameters: &[&[SAME_NAME]],
        ..OPEN
    },
];

fn open(task: &Task<'_>) -> Outcome {
    let path = place::path(task)?;
    if !task.has(SAME_NAME) {
        scratch::create(&path, 0, OFlags::empty())?;
    }
    let path = place::go_near(task, &path)?;
    task.repeat(|| openat(CWD, &path, OFlags::RDWR, Mode::empty()).during("open").map(drop))
}
