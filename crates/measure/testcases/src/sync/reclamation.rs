//! What a reader pays so that nothing is freed under it.

use std::hint::black_box;
use std::sync::LazyLock;

use knee_run::{Outcome, Task, Testcase};
use knee_sync::epoch;
use knee_sync::hazard::AtomicBox;

use super::shared::{repeat, shared};

pub(super) const TESTCASES: &[Testcase] = &[
    Testcase {
        name: "epoch1",
        description: "enters and leaves an epoch section with pin() and drop",
        ..shared(epoch1)
    },
    Testcase {
        name: "epoch_section1",
        description: "enters and leaves an epoch section that may sleep",
        ..shared(epoch_section1)
    },
    Testcase {
        name: "hazard1",
        description: "protects an object with a hazard pointer, reads the object, releases the \
            pointer",
        ..shared(hazard)
    },
];

fn epoch1(task: &Task<'_>) -> Outcome {
    repeat(task, || drop(black_box(epoch::pin())))
}

fn epoch_section1(task: &Task<'_>) -> Outcome {
    repeat(task, || drop(black_box(epoch::section())))
}

static OBJECT: LazyLock<AtomicBox<u64>> = LazyLock::new(|| AtomicBox::new(1));

fn hazard(task: &Task<'_>) -> Outcome {
    let object: &AtomicBox<u64> = &OBJECT;
    repeat(task, || {
        black_box(object.load().as_deref());
    })
}
