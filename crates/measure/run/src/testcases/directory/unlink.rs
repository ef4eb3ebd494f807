//! Making and removing names in a directory.

use rustix::fs::{CWD, Mode, OFlags, openat};

use super::place;
use crate::task::{During, Outcome, Task};
use crate::testcase::Variant::{OwnDirectory, SameDirectory};
use crate::testcase::{Family, Testcase};

pub(super) const TESTCASES: &[Testcase] = &[
    Testcase {
        name: "unlink1",
        description: "open(O_CREAT), close() and unlink(), all tasks in one directory",
        variants: &[SameDirectory, OwnDirectory],
        ..Testcase::new(Family::Directory, unlink)
    },
    Testcase {
        name: "unlink2",
        description: "unlink1@own-directory: each task in a directory of its own",
        variants: &[OwnDirectory],
        ..Testcase::new(Family::Directory, unlink)
    },
];

fn unlink(task: &Task<'_>) -> Outcome {
    let path = place::path(task)?;
    let path = place::go_near(task, &path)?;
    task.repeat(|| {
        let flags = OFlags::RDWR | OFlags::CREATE;
        drop(openat(CWD, &path, flags, Mode::RUSR | Mode::WUSR).during("open")?);
        rustix::fs::unlink(&path).during("unlink")
    })
}
