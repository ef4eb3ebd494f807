//! Writing through a file.

use knee_run::{During, Family, Outcome, Task, Testcase, Whole};
use rustix::fs::{OFlags, SeekFrom, seek};
use rustix::io;

use super::scratch::{self, BLOCK, Buffer, LONG};

pub(super) const TESTCASES: &[Testcase] = &[Testcase {
    name: "write1",
    description: "write(4 KiB) to the task's own file, rewound after 1 MiB",
    ..Testcase::new(Family::File, write)
}];

/// The rewinding, once in 256 writes, is not counted.
fn write(task: &Task<'_>) -> Outcome {
    let file = scratch::own(task, 0, OFlags::empty())?;
    let buffer = Buffer::<BLOCK>::new();
    let mut left = LONG;
    task.repeat(|| {
        io::write(&file, &buffer.0).whole(BLOCK, "write")?;
        left -= BLOCK;
        if left == 0 {
            seek(&file, SeekFrom::Start(0)).during("lseek")?;
            left = LONG;
        }
        Ok(())
    })
}
