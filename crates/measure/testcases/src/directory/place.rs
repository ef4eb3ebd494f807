//! Where the file of a task is and what it is called.
//!
//! The length of a path is part of what a look-up costs. In will-it-scale it has two components
//! (`/tmp/NAME`), three where each task has a directory; the directory of a round is deeper down.
//! So tasks go to the directory above it and use relative paths of as many components. A
//! descriptor of the directory would not do: threads would pay for its reference count.

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use knee_run::{During, Setup, Task, TaskError};
use rustix::fs::{Mode, OFlags, mkdir};

use crate::choices::{OWN_DIRECTORY, SAME_NAME};
use crate::file::scratch;

const SHARED: &str = "shared";

/// Makes the file that all tasks share, if they share one.
pub(super) fn prepare(setup: &Setup<'_>) -> Result<(), TaskError> {
    if setup.settings.has(SAME_NAME) {
        scratch::create(&setup.dir.join(SHARED), 0, OFlags::empty())?;
    }
    Ok(())
}

/// The full path for the file of `task`, in a directory that exists.
pub(super) fn path(task: &Task<'_>) -> Result<PathBuf, TaskError> {
    if task.has(SAME_NAME) {
        return Ok(task.dir.join(SHARED));
    }
    if task.has(OWN_DIRECTORY) {
        return Ok(own_directory(task, task.dir)?.join("file"));
    }
    Ok(task.own_path("file"))
}

/// Makes a directory for `task` in `parent`.
pub(super) fn own_directory(task: &Task<'_>, parent: &Path) -> Result<PathBuf, TaskError> {
    let dir = parent.join(format!("dir.{}", task.nr));
    mkdir(&dir, Mode::RWXU).during("mkdir")?;
    Ok(dir)
}

/// Makes `path` relative to the directory above that of the round, and goes there.
pub(super) fn go_near(task: &Task<'_>, path: &Path) -> Result<CString, TaskError> {
    let above = task.dir.parent().unwrap_or(task.dir);
    // Threads have one working directory; all of them go to the same.
    rustix::process::chdir(above).during("chdir")?;
    name(path.strip_prefix(above).unwrap_or(path))
}

/// `path` as the kernel wants it.
pub(super) fn name(path: &Path) -> Result<CString, TaskError> {
    CString::new(path.as_os_str().as_bytes()).map_err(|e| TaskError::found(e.to_string()))
}
