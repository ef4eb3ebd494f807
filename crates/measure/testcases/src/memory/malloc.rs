//! Allocating and freeing through the C library, as C programs do.
//!
//! The pointer goes through a black box, as clang removes the whole loop of will-it-scale
//! otherwise.

use std::hint::black_box;

use knee_run::{Family, Outcome, Task, TaskError, Testcase};

pub(super) const TESTCASES: &[Testcase] = &[
    Testcase {
        name: "malloc1",
        description: "malloc() and free() of 128 MB, which glibc maps and unmaps each time",
        ..Testcase::new(Family::Memory, malloc1)
    },
    Testcase {
        name: "malloc2",
        description: "malloc() and free() of 1 kB, which rarely enter the kernel",
        ..Testcase::new(Family::Memory, malloc2)
    },
];

fn malloc1(task: &Task<'_>) -> Outcome {
    malloc_and_free(task, 128 << 20)
}

fn malloc2(task: &Task<'_>) -> Outcome {
    malloc_and_free(task, 1 << 10)
}

fn malloc_and_free(task: &Task<'_>, bytes: usize) -> Outcome {
    task.repeat(|| {
        // SAFETY: `malloc` takes any size, and `free` null or what `malloc` has just returned and
        // nobody else has seen.
        let failed = unsafe {
            let memory = black_box(libc::malloc(bytes));
            libc::free(memory);
            memory.is_null()
        };
        if failed { Err(TaskError::last("malloc")) } else { Ok(()) }
    })
}
