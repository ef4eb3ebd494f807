//! Counts of references to an object that all tasks use. Each task has a reference all the time, as to a
//! file that it has open, and takes and drops a second one.

use std::hint::black_box;
use std::sync::{Arc, LazyLock, OnceLock};

use knee_run::area::Padded;
use knee_run::{Outcome, Task, Testcase};
use knee_sync::refs::refcache::RefcacheArc;
use knee_sync::refs::{PerCpuRef, Snzi};

use super::shared::{repeat, shared};

pub(super) const TESTCASES: &[Testcase] = &[
    Testcase {
        name: "refcount_atomic1",
        description: "clones an Arc and drops the clone",
        ..shared(atomic)
    },
    Testcase {
        name: "refcount_percpu1",
        description: "takes and drops a reference that per-CPU counters count",
        ..shared(percpu)
    },
    Testcase {
        name: "refcount_refcache1",
        description: "takes and drops a reference that refcache counts; no ticks occur",
        ..shared(refcache)
    },
    Testcase {
        name: "snzi1",
        description: "arrives at the task's own leaf of a scalable nonzero indicator, and departs",
        ..shared(snzi)
    },
];

fn atomic(task: &Task<'_>) -> Outcome {
    static OBJECT: LazyLock<Arc<Padded<()>>> = LazyLock::new(|| Arc::new(Padded(())));
    let own = Arc::clone(&OBJECT);
    repeat(task, || drop(black_box(Arc::clone(&own))))
}

fn percpu(task: &Task<'_>) -> Outcome {
    static COUNT: LazyLock<PerCpuRef> = LazyLock::new(PerCpuRef::default);
    let count: &PerCpuRef = &COUNT;
    count.get();
    repeat(task, || {
        count.get();
        black_box(count.put());
    })
}

fn refcache(task: &Task<'_>) -> Outcome {
    static OBJECT: LazyLock<RefcacheArc<()>> = LazyLock::new(|| RefcacheArc::new(()));
    let own = OBJECT.clone();
    repeat(task, || drop(black_box(own.clone())))
}

fn snzi(task: &Task<'_>) -> Outcome {
    static INDICATOR: OnceLock<Snzi> = OnceLock::new();
    let indicator = INDICATOR.get_or_init(|| Snzi::new(task.tasks));
    let _own = indicator.arrive_at(task.nr);
    repeat(task, || drop(black_box(indicator.arrive_at(task.nr))))
}
