//! POSIX semaphores.

use std::cell::UnsafeCell;
use std::mem::MaybeUninit;

use knee_run::{Family, Outcome, Task, Testcase, check};

pub(super) const TESTCASES: &[Testcase] = &[Testcase {
    name: "posix_semaphore1",
    description: "sem_wait() and sem_post() of the task's own semaphore",
    ..Testcase::new(Family::Lock, semaphore)
}];

fn semaphore(task: &Task<'_>) -> Outcome {
    let place = UnsafeCell::new(MaybeUninit::<libc::sem_t>::uninit());
    let semaphore: *mut libc::sem_t = place.get().cast();
    // SAFETY: `place` is memory of the right size that is ours alone, and this frame, which never
    // moves it, outlives all uses of the pointer.
    check(unsafe { libc::sem_init(semaphore, 0, 1) }, "sem_init")?;
    task.repeat(|| {
        // SAFETY: initialised above and not destroyed. No two threads use it.
        check(unsafe { libc::sem_wait(semaphore) }, "sem_wait")?;
        // SAFETY: as above.
        check(unsafe { libc::sem_post(semaphore) }, "sem_post")?;
        Ok(())
    })
}
