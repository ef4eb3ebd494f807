//! Limits of resources (`setrlimit(2)`).

use std::sync::OnceLock;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The limit of open files with which this process began.
static OPEN_FILES: OnceLock<Rlimit> = OnceLock::new();

/// Raises this process's limit of open files as far as it is allowed. Returns the limit with which the process
/// began, for programs that it starts: some take long to start with a high limit.
pub fn raise_open_files() -> Rlimit {
    let limit = *OPEN_FILES.get_or_init(|| getrlimit(Resource::Nofile));
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
    limit
}

/// The limit of open files of this process, if it is below `needed`.
pub fn open_files_below(needed: u64) -> Option<u64> {
    getrlimit(Resource::Nofile).current.filter(|limit| *limit < needed)
}
