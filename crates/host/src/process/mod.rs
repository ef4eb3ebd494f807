//! Processes: forking and starting them, waiting for them, and finding programs.

mod fork;
mod output;
pub mod program;
mod start;
pub mod suspended;

pub use fork::{exit_now, fork_bound};
pub use output::{last_line, read_available, read_tail};
pub use start::{Ties, exec, output, spawn, status};

use rustix::process::{Pid, WaitOptions, waitpgid};

/// Reaps the killed processes of `group` that became children of this process, a subreaper, when
/// their parent died.
pub fn reap_group(group: Pid) {
    while waitpgid(group, WaitOptions::empty()).is_ok_and(|w| w.is_some()) {}
}
