//! The files that testcases of several families work on: a task's own, or one for all tasks.
//!
//! A task's own file loses its name as soon as it is made. The shared one is made by `prepare`;
//! every task opens it by itself, so what tasks share is the inode and never the file offset,
//! nor, with threads, the open file description.

use std::os::fd::OwnedFd;
use std::path::Path;

use knee_run::{During, Setup, Task, TaskError, Whole};
use rustix::fs::{Mode, OFlags};
use rustix::param::page_size;

use crate::choices::{SAME_FILE, SAME_FILE_OWN_PAGE};

/// What one read or write moves, as in will-it-scale.
pub(crate) const BLOCK: usize = 4096;
/// Size of the file that is read or written through, as in will-it-scale.
pub(crate) const LONG: usize = 1 << 20;

/// Zeroed bytes on a page boundary: `O_DIRECT` insists on one, and the copies of the kernel run
/// at a speed that does not depend on where this round's stack happens to begin.
#[repr(align(4096))]
pub(crate) struct Buffer<const N: usize = BLOCK>(pub [u8; N]);

impl<const N: usize> Buffer<N> {
    pub(crate) fn new() -> Self {
        Self([0; N])
    }
}

const SHARED: &str = "shared";

/// `prepare` of a testcase whose tasks each use [`BLOCK`] bytes of a file.
pub(crate) fn share_block(setup: &Setup<'_>) -> Result<(), TaskError> {
    share(setup, BLOCK, OFlags::empty())
}

/// Makes the file that the tasks share, if they share one: `bytes` of zeros that were
/// written with `flags`; or a page for each task.
pub(crate) fn share(setup: &Setup<'_>, bytes: usize, flags: OFlags) -> Result<(), TaskError> {
    let bytes = if setup.settings.has(SAME_FILE) {
        bytes
    } else if setup.settings.has(SAME_FILE_OWN_PAGE) {
        page_size() * setup.tasks as usize
    } else {
        return Ok(());
    };
    create(&setup.dir.join(SHARED), bytes, flags).map(drop)
}

/// Opens what the parameter `file` says: a new file of `bytes` zeros, or the shared one.
pub(crate) fn open(task: &Task<'_>, bytes: usize, flags: OFlags) -> Result<OwnedFd, TaskError> {
    if task.has(SAME_FILE) || task.has(SAME_FILE_OWN_PAGE) {
        let path = task.dir.join(SHARED);
        return rustix::fs::open(path, OFlags::RDWR | flags, Mode::empty()).during("open");
    }
    own(task, bytes, flags)
}

/// The byte at which `task` uses the file of [`open`].
pub(crate) fn offset(task: &Task<'_>) -> u64 {
    if task.has(SAME_FILE_OWN_PAGE) { (page_size() * task.nr) as u64 } else { 0 }
}

/// A new file of `bytes` zeros that belongs to `task` and has no name.
pub(crate) fn own(task: &Task<'_>, bytes: usize, flags: OFlags) -> Result<OwnedFd, TaskError> {
    let path = task.own_path("own");
    let file = create(&path, bytes, flags)?;
    rustix::fs::unlink(path).during("unlink")?;
    Ok(file)
}

/// A new file of `bytes` zeros, its offset at the beginning.
pub(crate) fn create(path: &Path, bytes: usize, flags: OFlags) -> Result<OwnedFd, TaskError> {
    /// Large, since a direct write costs a trip to the disk.
    const CHUNK: usize = 64 << 10;
    let new = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL;
    let file = rustix::fs::open(path, new | flags, Mode::RUSR | Mode::WUSR).during("open")?;
    let zeros = Buffer::<CHUNK>::new();
    for start in (0..bytes).step_by(CHUNK) {
        let part = &zeros.0[..CHUNK.min(bytes - start)];
        rustix::io::pwrite(&file, part, start as u64).whole(part.len(), "pwrite")?;
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use knee_run::area::Area;
    use knee_run::parameter::{Choice, Settings};

    use super::*;
    use crate::choices::OWN_FILE;

    fn shared_bytes(choice: Choice) -> Option<usize> {
        let dir = tempfile::tempdir().unwrap();
        let area = Area::new(3, 3).unwrap();
        let parameters = &[&[OWN_FILE, SAME_FILE, SAME_FILE_OWN_PAGE][..]];
        let settings = &Settings::new(parameters, &[(choice.key, choice.value)]).unwrap();
        let setup = Setup { dir: dir.path(), tasks: 3, settings, object: area.object() };
        share(&setup, 100_000, OFlags::empty()).unwrap();
        Some(std::fs::metadata(dir.path().join(SHARED)).ok()?.len() as usize)
    }

    #[test]
    fn tasks_share_a_file_only_if_the_parameter_requests_it() {
        assert_eq!(shared_bytes(OWN_FILE), None);
        assert_eq!(shared_bytes(SAME_FILE), Some(100_000));
        assert_eq!(shared_bytes(SAME_FILE_OWN_PAGE), Some(3 * page_size()));
    }
}
