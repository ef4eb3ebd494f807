//! Two tasks that wake each other in turn.

use knee_run::{During, Family, NEXT_CPU, Outcome, SAME_CPU, Task, Testcase, Whole};
use rustix::io::{read, write};
use rustix::pipe::pipe;

pub(super) const TESTCASES: &[Testcase] = &[Testcase {
    name: "context_switch1",
    description: "sends a byte through a pipe to a helper, which sends it back; counts both",
    parameters: &[&[SAME_CPU, NEXT_CPU]],
    has_helpers: true,
    ..Testcase::new(Family::Ipc, context_switch)
}];

fn context_switch(task: &Task<'_>) -> Outcome {
    let (from_task, to_helper) = pipe().during("pipe")?;
    let (from_helper, to_task) = pipe().during("pipe")?;
    // The helper's ends go with it, so its death is an end of file here and not a silence.
    task.spawn_helper(move || {
        let mut byte = [0];
        loop {
            read(&from_task, &mut byte).whole(1, "read from the task")?;
            write(&to_task, &byte).whole(1, "write to the task")?;
        }
    })?;
    let mut byte = [1];
    let mut count = task.start();
    loop {
        write(&to_helper, &byte).whole(1, "write to the helper")?;
        read(&from_helper, &mut byte).whole(1, "read from the helper")?;
        count.add(2);
    }
}
