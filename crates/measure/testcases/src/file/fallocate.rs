//! Giving a file its blocks before they are written.

use knee_run::{During, Family, Need, Outcome, Task, Testcase};
use rustix::fs::{FallocateFlags, OFlags, ftruncate};
use rustix::io::retry_on_intr;

use super::scratch::{self, LONG};

pub(super) const TESTCASES: &[Testcase] = &[
    Testcase {
        name: "fallocate1",
        description: "fallocate(8 KiB) at the end of the task's file on tmpfs; the file is \
            emptied at 1 MiB",
        needs: &[Need::Tmpfs],
        ..Testcase::new(Family::File, fallocate)
    },
    Testcase {
        name: "fallocate2",
        description: "fallocate(8 KiB) at the end of the task's file; the file is emptied at 1 MiB",
        ..Testcase::new(Family::File, fallocate)
    },
];

/// The emptying, once in 128 calls, is not counted, as in will-it-scale.
fn fallocate(task: &Task<'_>) -> Outcome {
    const BYTES: u64 = LONG as u64 / 128;
    let file = scratch::own(task, 0, OFlags::empty())?;
    let mut end = 0;
    task.repeat(|| {
        // tmpfs gives up with EINTR when, for instance, a debugger attaches.
        retry_on_intr(|| rustix::fs::fallocate(&file, FallocateFlags::empty(), end, BYTES))
            .during("fallocate")?;
        end += BYTES;
        if end == LONG as u64 {
            ftruncate(&file, 0).during("ftruncate")?;
            end = 0;
        }
        Ok(())
    })
}
