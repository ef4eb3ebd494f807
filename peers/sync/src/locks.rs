//! Locks that are read, counts of references, and delayed invalidation.

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, RwLock};

use crossbeam_utils::CachePadded;
use crossbeam_utils::sync::ShardedLock;
use knee_baselines::invalidation::{Epoch, Invalidation, LockFree, Locked, Stamp, Tracker};
use knee_sync::refs::{PerCpuRef, Snzi, refcache};
use knee_sync::rm::RmLock;
use knee_sync::{System, invalidation};

use side_by_side::{Figure, Row, THREADS, measure};

pub(crate) fn figures(rounds: usize) -> Vec<Figure> {
    let rows: Vec<Row> = [locks(), counts(), invalidations()].into_iter().flatten().collect();
    measure("locks", &rows.iter().collect::<Vec<_>>(), rounds, 0)
}

fn locks() -> Vec<Row> {
    let (rm, rm_write) = (RmLock::new(1_u64), RmLock::new(1_u64));
    let (std, std_write) = (RwLock::new(1_u64), RwLock::new(1_u64));
    let (parking, parking_write) =
        (parking_lot::RwLock::new(1_u64), parking_lot::RwLock::new(1_u64));
    let (sharded, sharded_write) = (ShardedLock::new(1_u64), ShardedLock::new(1_u64));
    const GOOD: &str = "nobody panics with the lock";
    vec![
        Row::of("**`RmLock`**, read", move || {
            black_box(*rm.read());
        }),
        Row::of("`std::sync::RwLock`, read", move || {
            black_box(*std.read().expect(GOOD));
        }),
        Row::of("`parking_lot::RwLock`, read", move || {
            black_box(*parking.read());
        }),
        Row::of("crossbeam's `ShardedLock`, read", move || {
            black_box(*sharded.read().expect(GOOD));
        }),
        Row::of("**`RmLock`**, write", move || *rm_write.write() += 1),
        Row::of("`std::sync::RwLock`, write", move || *std_write.write().expect(GOOD) += 1),
        Row::of("`parking_lot::RwLock`, write", move || *parking_write.write() += 1),
        Row::of("crossbeam's `ShardedLock`, write", move || {
            *sharded_write.write().expect(GOOD) += 1
        }),
    ]
}

fn counts() -> Vec<Row> {
    let per_cpu = PerCpuRef::new(System::detect());
    let shared = refcache::RefcacheArc::new(1_u64);
    let [snzi, in_use] = [(); 2].map(|()| Snzi::new(THREADS));
    let arc = Arc::new(1_u64);
    let (added, own) = (AtomicU64::new(0), <[CachePadded<AtomicU64>; THREADS]>::default());
    vec![
        Row::of("**`PerCpuRef`**, get, put", move || {
            per_cpu.get();
            black_box(per_cpu.put());
        }),
        Row::of("**`refcache::RefcacheArc`**, clone, drop", move || {
            drop(black_box(shared.clone()))
        }),
        Row::new("**`Snzi`**, arrive, depart", move |round| {
            round.time(|| drop(black_box(snzi.arrive_at(round.thread))));
        }),
        Row::new("**`Snzi`**, arrive, depart, at a leaf in use", move |round| {
            let _there = in_use.arrive_at(round.thread);
            round.time(|| drop(black_box(in_use.arrive_at(round.thread))));
        }),
        Row::of("`Arc`, clone, drop", move || drop(black_box(Arc::clone(&arc)))),
        Row::of("`fetch_add`, one word for all", move || {
            black_box(added.fetch_add(1, Relaxed));
        }),
        Row::new("`fetch_add`, a word for each thread", move |round| {
            let own = &own[round.thread];
            round.time(|| {
                black_box(own.fetch_add(1, Relaxed));
            });
        }),
    ]
}

/// A section that marks one page. Its thread has the page's lock already, so that the lock is not measured.
fn invalidations() -> Vec<Row> {
    let lock_free = LockFree::new().map(|form| older_invalidation("**`LockFree`**", form));
    let mut rows = vec![
        new_invalidation("**`Slots`**"),
        older_invalidation("**`Locked`**", Locked::new()),
        older_invalidation("**`Epoch`**", Epoch::new()),
    ];
    rows.extend(lock_free);
    rows
}

fn older_invalidation<F: Invalidation + 'static>(name: &str, form: F) -> Row {
    let tracker: &'static Tracker<F, System> = Box::leak(Box::new(Tracker::new(form)));
    Row::new(format!("{name}, begin, mark, finish"), move |round| {
        let mut member = tracker.join();
        let page = Stamp::new();
        round.time(|| {
            let section = member.begin();
            section.mark(&page);
            section.finish();
        });
    })
}

fn new_invalidation(name: &str) -> Row {
    let tracker: &'static invalidation::Tracker<System> =
        Box::leak(Box::new(invalidation::Tracker::new()));
    Row::new(format!("{name}, begin, mark, finish"), move |round| {
        let mut member = tracker.register();
        let page = invalidation::Stamp::new();
        round.time(|| {
            let section = member.begin();
            section.mark(&page);
            section.finish();
        });
    })
}
