//! Making and removing names in a directory.

use knee_run::{During, Family, Outcome, Task, Testcase};
use rustix::fs::{CWD, Mode, OFlags, openat};

use super::place;
use crate::choices::{OWN_DIRECTORY, SAME_DIRECTORY};

pub(super) const TESTCASES: &[Testcase] = &[
    Testcase {
        name: "unlink1",
        description: "open(O_CREAT), close() and unlink() of a file; all tasks use one directory",
        parameters: &[&[SAME_DIRECTORY, OWN_DIRECTORY]],
        ..Testcase::new(Family::Directory, unlink)
    },
    Testcase {
        name: "unlink2",
        description: "unlink1@path=own-directory: each task uses its own directory",
        parameters: &[&[OWN_DIRECTORY]],
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
