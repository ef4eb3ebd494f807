//! Forking, and the copy-on-write breaks afterwards.
//!
//! The child has the memory of all threads of its parent.

use knee_host::process::fork_bound;
use knee_run::{During, Family, Outcome, Task, TaskError, Testcase};
use rustix::param::page_size;
use rustix::process::{Pid, WaitOptions, waitpid};

use super::region::{Region, choose_page_size};

pub(super) const TESTCASES: &[Testcase] = &[Testcase {
    name: "fork_cow1",
    description: "fork(); the child writes to 1 MiB and exits; then the parent writes to the same \
        1 MiB",
    ..Testcase::new(Family::Memory, fork)
}];

/// Bytes of each task that both write to.
pub(crate) const BYTES: usize = 1 << 20;

fn fork(task: &Task<'_>) -> Outcome {
    choose_page_size(task)?;
    let region = Region::anonymous(BYTES)?;
    write_to_all(&region);
    task.repeat(|| {
        // SAFETY: the child writes to memory of its own and ends.
        match unsafe { fork_bound() }.during("create a process")? {
            None => {
                write_to_all(&region);
                // SAFETY: it runs no handlers and does not return.
                unsafe { libc::_exit(0) }
            }
            Some(child) => wait(child)?,
        }
        write_to_all(&region);
        Ok(())
    })
}

#[inline]
fn write_to_all(region: &Region) {
    for offset in (0..BYTES).step_by(page_size()) {
        region.write(offset, 0);
    }
}

fn wait(child: Pid) -> Result<(), TaskError> {
    match waitpid(Some(child), WaitOptions::empty()).during("waitpid")? {
        Some((_, status)) if status.exit_status() == Some(0) => Ok(()),
        _ => Err(TaskError::found("a child did not end with status 0")),
    }
}
