//! Looking up a name below an open directory.
//!
//! Defined by the FreeBSD fork of will-it-scale, on files in `/var/tmp` that it leaves there.

use std::ffi::CStr;
use std::hint::black_box;
use std::path::Path;

use knee_run::{During, Family, Outcome, Task, Testcase};
use rustix::fs::{AtFlags, Mode, OFlags, mkdir, statat};
use rustix::io::Errno;

use super::place;
use crate::choices::{OWN_DIRECTORY, SAME_DIRECTORY};
use crate::file::scratch::{self, LONG};

pub(super) const TESTCASES: &[Testcase] = &[
    Testcase {
        name: "fstatat1",
        description: "fstatat() of the task's own file, relative to its directory",
        parameters: &[&[SAME_DIRECTORY, OWN_DIRECTORY]],
        ..Testcase::new(Family::Directory, file)
    },
    Testcase {
        name: "fstatat2",
        description: "fstatat1@path=own-directory: each task has its own directory",
        parameters: &[&[OWN_DIRECTORY]],
        ..Testcase::new(Family::Directory, file)
    },
    Testcase {
        name: "fstatat3",
        description: "fstatat() of a directory, relative to its grandparent directory",
        ..Testcase::new(Family::Directory, two_components)
    },
];

fn file(task: &Task<'_>) -> Outcome {
    let path = place::path(task)?;
    scratch::create(&path, LONG, OFlags::empty())?;
    let dir = path.parent().unwrap_or(task.dir);
    look_up(task, dir, &path)
}

/// The first component is the same for all tasks, as `tmp` below `/var` is in the original.
fn two_components(task: &Task<'_>) -> Outcome {
    let parent = task.dir.join("parent");
    match mkdir(&parent, Mode::RWXU) {
        Err(Errno::EXIST) => {}
        other => other.during("mkdir")?,
    }
    let own = place::own_directory(task, &parent)?;
    look_up(task, task.dir, &own)
}

fn look_up(task: &Task<'_>, dir: &Path, path: &Path) -> Outcome {
    let name = place::name(path.strip_prefix(dir).unwrap_or(path))?;
    let name: &CStr = &name;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY;
    let dir = rustix::fs::open(dir, flags, Mode::empty()).during("open a directory")?;
    task.repeat(|| {
        black_box(&statat(&dir, name, AtFlags::empty()).during("fstatat")?);
        Ok(())
    })
}
