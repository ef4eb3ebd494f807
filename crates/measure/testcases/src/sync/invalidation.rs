//! Delayed invalidation in the forms that FreeBSD has had: a mutex (2016), an epoch (2018), a list
//! without locks (2019); and the one of knee-sync. Nobody waits for an invalidation here, as is the rule.

use std::sync::LazyLock;

use knee_baselines::invalidation::{Epoch, Invalidation, LockFree, Locked, Stamp, Tracker};
use knee_run::area::Padded;
use knee_run::{Need, Outcome, Task, Testcase};
use knee_sync::{System, invalidation};

use super::shared::{repeat, shared};

pub(super) const TESTCASES: &[Testcase] = &[
    Testcase {
        name: "di_mutex1",
        description: "delayed invalidation of a page, with a mutex: begin, mark, finish",
        ..shared(di_mutex1)
    },
    Testcase {
        name: "di_epoch1",
        description: "delayed invalidation of a page, with an epoch: begin, mark, finish",
        ..shared(di_epoch1)
    },
    Testcase {
        name: "di_lockfree1",
        description: "delayed invalidation of a page, in a lock-free list: begin, mark, finish",
        needs: &[Need::Threads, Need::Exchange128],
        ..shared(di_lockfree1)
    },
    Testcase {
        name: "di_slots1",
        description: "delayed invalidation of a page, with a slot per thread: begin, mark, finish",
        ..shared(invalidate_in_slots)
    },
];

fn di_mutex1(task: &Task<'_>) -> Outcome {
    invalidate(task, &LOCKED.0)
}

fn di_epoch1(task: &Task<'_>) -> Outcome {
    invalidate(task, &EPOCH.0)
}

fn di_lockfree1(task: &Task<'_>) -> Outcome {
    invalidate(task, &LOCK_FREE.0)
}

type Shared<F> = Padded<LazyLock<Tracker<F, System>>>;

static LOCKED: Shared<Locked> = Padded(LazyLock::new(|| Tracker::new(Locked::new())));

static EPOCH: Shared<Epoch> = Padded(LazyLock::new(|| Tracker::new(Epoch::new())));

static LOCK_FREE: Shared<LockFree> = Padded(LazyLock::new(|| {
    Tracker::new(LockFree::new().expect("the testcase needs a 128-bit compare-exchange"))
}));

/// Each task invalidates a page of its own.
fn invalidate<F: Invalidation>(task: &Task<'_>, tracker: &Tracker<F, System>) -> Outcome {
    let mut member = tracker.join();
    let page = Stamp::new();
    repeat(task, || {
        let section = member.begin();
        section.mark(&page);
        section.finish();
    })
}

/// The same, with that of knee-sync.
fn invalidate_in_slots(task: &Task<'_>) -> Outcome {
    static TRACKER: Padded<LazyLock<invalidation::Tracker<System>>> =
        Padded(LazyLock::new(invalidation::Tracker::new));
    let mut member = TRACKER.0.register();
    let page = invalidation::Stamp::new();
    repeat(task, || {
        let section = member.begin();
        section.mark(&page);
        section.finish();
    })
}
