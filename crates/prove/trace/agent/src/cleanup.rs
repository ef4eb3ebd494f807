//! Removes the descriptors, mappings and files that tests leave behind.

use knee_plan::{Call, Home, MOST, Nr, Step};
use std::ffi::CStr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::layout::{
    FREE, HIDDEN_ENDS, MOST_HIDDEN, NAMES, OWN, PAGE, PAGES_APART, PAGES_AT, hidden_name,
    is_of_test, path_of,
};

/// The descriptors and pages that a test may have left in this process. The agent records each of them when
/// the test makes it, because searching for them afterwards would take longer than the test.
#[derive(Debug, Default)]
pub(crate) struct Left {
    pub(crate) fds: Vec<i32>,
    /// The addresses of the pages.
    pub(crate) pages: Vec<usize>,
}

static LEFT: Mutex<Left> = Mutex::new(Left { fds: Vec::new(), pages: Vec::new() });

pub(crate) fn left() -> MutexGuard<'static, Left> {
    LEFT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Closes all descriptors and unmaps all pages that a test has made in this process.
pub(crate) fn clean() {
    let mut left = left();
    for fd in left.fds.drain(..) {
        // SAFETY: the descriptor belongs to a test; it may be closed already. The agent's own
        // descriptors are higher.
        unsafe { libc::close(fd) };
        const { assert!(HIDDEN_ENDS + 2 * MOST as i32 * MOST_HIDDEN <= FREE && FREE < OWN as i32) };
    }
    for at in left.pages.drain(..) {
        // SAFETY: the page is in the range kept for tests, or a call of a test has mapped it.
        unsafe { libc::munmap(at as *mut libc::c_void, PAGE) };
    }
}

/// After a successful set-up, removes the files that the test may have left.
pub(crate) fn clean_files(steps: &[(u8, Step)], calls: &[(u8, Call)]) {
    // SAFETY: names are valid C strings. Unlinking a name that does not exist does no harm.
    let unlink = |name: &CStr| unsafe { libc::unlink(name.as_ptr()) };
    let mut unlinked = [false; MOST];
    let mut name = |nr: Nr| {
        if !std::mem::replace(&mut unlinked[usize::from(nr)], true) {
            unlink(NAMES[usize::from(nr)]);
        }
    };
    for (_, step) in steps {
        if let Step::File { names, .. } = step {
            names.as_slice().iter().for_each(|&nr| name(nr));
        }
    }
    for (_, call) in calls {
        match *call {
            Call::Open { name: made, creat: true, .. } => name(made),
            Call::Link { new, .. } | Call::Rename { new, .. } => name(new),
            _ => {}
        }
    }
    for (_, step) in steps {
        let Step::File { inode, home, names, links, .. } = *step else { continue };
        if home == Home::Hidden(inode) {
            unlink(path_of(home));
        }
        for nr in names.as_slice().len().max(1) as u8..links {
            unlink(&hidden_name(inode, nr));
        }
    }
}

/// After a failed set-up, closes all descriptors and unmaps all pages that the test may have made
/// in this process.
pub(crate) fn sweep() {
    clean();
    // SAFETY: the range is kept for tests, and the agent's own descriptors are higher.
    unsafe {
        libc::munmap(PAGES_AT as *mut libc::c_void, MOST * PAGES_APART);
        libc::syscall(libc::SYS_close_range, 0_u32, OWN - 1, 0_u32);
    }
}

/// Removes the files of tests in the working directory, and no other files. So no other file is lost, even
/// if knee did not create this directory.
pub(crate) fn sweep_files() {
    let Ok(files) = std::fs::read_dir(".") else { return };
    for file in files.flatten().filter(|file| is_of_test(&file.file_name())) {
        // If a file cannot be removed, the next set-up fails, and this failure is reported.
        let _ = std::fs::remove_file(file.path());
    }
}
