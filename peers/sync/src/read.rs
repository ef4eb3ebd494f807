//! The read side: entering and leaving a section, and loading a pointer that other threads may replace.

use std::hint::black_box;
use std::sync::atomic::{AtomicPtr, Ordering::Acquire};
use std::sync::atomic::{AtomicU64, Ordering::AcqRel, Ordering::Relaxed, Ordering::SeqCst, fence};
use std::sync::{Arc, LazyLock};

use arc_swap::ArcSwap;
use crossbeam_utils::CachePadded;
use haphazard::HazardPointer;
use knee_sync::epoch::{self, Domain, QsbrHandle};
use knee_sync::{Rcu, System, hazard};
use seize::{Collector, Guard};

use crate::c::{BP, C, CK, MEMB, Member, QSBR};
use side_by_side::{Figure, Row, THREADS, measure};

/// seize has no common collector.
pub(crate) static SEIZE: LazyLock<Collector> = LazyLock::new(Collector::new);

pub(crate) fn figures(rounds: usize) -> Vec<Figure> {
    measure("read", &rows().iter().collect::<Vec<_>>(), rounds, 0)
}

pub(crate) fn rows() -> Vec<Row> {
    [floor(), ours(), crates(), in_c()].into_iter().flatten().collect()
}

/// The cost of the parts of such protocols.
fn floor() -> Vec<Row> {
    let own = || -> [CachePadded<AtomicU64>; THREADS] { Default::default() };
    let value = AtomicPtr::new(Box::into_raw(Box::new(1_u64)));
    let [fenced, exchanged] = [own(), own()];
    vec![
        Row::of("nothing", || black_box(())),
        Row::of("load, follow", move || {
            // SAFETY: the pointer came from a box that is never freed.
            black_box(unsafe { *value.load(Acquire) });
        }),
        Row::new("store, full fence, store", move |round| {
            let own = &fenced[round.thread];
            round.time(|| {
                own.store(1, Relaxed);
                fence(SeqCst);
                own.store(0, Relaxed);
            });
        }),
        Row::new("exchange, store", move |round| {
            let own = &exchanged[round.thread];
            round.time(|| {
                own.swap(1, AcqRel);
                own.store(0, Relaxed);
            });
        }),
    ]
}

fn ours() -> Vec<Row> {
    static SYMMETRIC: LazyLock<Domain<System>> = LazyLock::new(|| Domain::new(System::symmetric()));
    static ONLINE: LazyLock<Domain<System>> = LazyLock::new(|| Domain::new(System::detect()));
    let rcu = Rcu::new(1_u64);
    let online = Rcu::new_in(&ONLINE, 1_u64);
    let boxed = hazard::AtomicBox::new(1_u64);
    vec![
        Row::of("**`epoch::pin`**", || hold(epoch::pin())).among_idle(),
        Row::new("**`epoch::pin`**, nested", |round| {
            let _outer = epoch::pin();
            round.time(|| hold(epoch::pin()));
        }),
        Row::new("**`epoch::Handle::pin`**", |round| {
            let handle = epoch::shared().register();
            round.time(|| hold(handle.pin()));
        }),
        Row::new("**`epoch::Handle::pin`**, `System::symmetric`", |round| {
            let handle = SYMMETRIC.register();
            round.time(|| hold(handle.pin()));
        }),
        Row::of("**`epoch::section`**", || hold(epoch::section())).among_idle(),
        Row::of("**`epoch::pin`, `Rcu::load`**", move || {
            black_box(*rcu.load(&epoch::pin()));
        })
        .among_idle(),
        Row::new("**`QsbrHandle`, `Rcu::load`, `quiescent`**", move |round| {
            let mut thread = QsbrHandle::new(ONLINE.register());
            round.time(|| {
                black_box(*online.load(&thread));
                thread.quiescent();
            });
        }),
        Row::of("**`hazard::AtomicBox::load`**", move || {
            black_box(boxed.load().as_deref());
        })
        .among_idle(),
    ]
}

fn crates() -> Vec<Row> {
    let crossbeam = crossbeam_epoch::Atomic::new(1_u64);
    let seize = AtomicPtr::new(Box::into_raw(Box::new(1_u64)));
    let sdd = sdd::AtomicOwned::new(1_u64);
    let haphazard = Arc::new(haphazard::AtomicPtr::from(Box::new(1_u64)));
    let reused = Arc::clone(&haphazard);
    let arcs = Arc::new(ArcSwap::from_pointee(1_u64));
    let [full, cached] = [Arc::clone(&arcs), Arc::clone(&arcs)];
    vec![
        Row::of("crossbeam-epoch, `pin`", || hold(crossbeam_epoch::pin())).among_idle(),
        Row::new("crossbeam-epoch, `pin`, nested", |round| {
            let _outer = crossbeam_epoch::pin();
            round.time(|| hold(crossbeam_epoch::pin()));
        }),
        Row::of("crossbeam-epoch, `pin`, `load`", move || {
            let guard = crossbeam_epoch::pin();
            // SAFETY: it is never replaced.
            black_box(unsafe { crossbeam.load(Acquire, &guard).as_ref() }.copied());
        }),
        Row::new("seize, `enter`", |round| {
            let collector = &*SEIZE;
            round.time(|| hold(collector.enter()));
        })
        .among_idle(),
        Row::new("seize, `enter`, nested", |round| {
            let collector = &*SEIZE;
            let _outer = collector.enter();
            round.time(|| hold(collector.enter()));
        }),
        Row::new("seize, `enter`, `protect`", move |round| {
            let collector = &*SEIZE;
            round.time(|| {
                let guard = collector.enter();
                // SAFETY: the pointer came from a box, and is never replaced.
                black_box(unsafe { *guard.protect(&seize, Acquire) });
            });
        }),
        Row::of("sdd, `Guard::new`", || hold(sdd::Guard::new())).among_idle(),
        Row::new("sdd, `Guard::new`, nested", |round| {
            let _outer = sdd::Guard::new();
            round.time(|| hold(sdd::Guard::new()));
        }),
        Row::of("sdd, `Guard::new`, `load`", move || {
            let guard = sdd::Guard::new();
            black_box(sdd.load(Acquire, &guard).as_ref().copied());
        }),
        Row::of("haphazard, new pointer, `safe_load`", move || {
            black_box(haphazard.safe_load(&mut HazardPointer::new()).copied());
        })
        .among_idle(),
        Row::new("haphazard, kept pointer, `safe_load`, reset", move |round| {
            let mut pointer = HazardPointer::new();
            round.time(|| {
                black_box(reused.safe_load(&mut pointer).copied());
                pointer.reset_protection();
            });
        }),
        Row::of("arc-swap, `load`", move || {
            black_box(**arcs.load());
        })
        .among_idle(),
        Row::of("arc-swap, `load_full`", move || {
            black_box(*full.load_full());
        }),
        Row::new("arc-swap, `Cache::load`", move |round| {
            let mut cache = arc_swap::Cache::new(&*cached);
            round.time(|| {
                black_box(**cache.load());
            });
        }),
    ]
}

fn in_c() -> Vec<Row> {
    vec![
        c("ck_epoch, begin, end", &CK, Member::sections).among_idle(),
        c("ck_epoch, begin, end, nested", &CK, Member::nested),
        c("ck_epoch, begin, end, with a section", &CK, Member::special),
        c("ck_epoch, begin, load, end", &CK, Member::load),
        c("liburcu-memb, lock, unlock", &MEMB, Member::sections).among_idle(),
        c("liburcu-memb, lock, unlock, nested", &MEMB, Member::nested),
        c("liburcu-memb, lock, load, unlock", &MEMB, Member::load),
        c("liburcu-bp, lock, unlock", &BP, Member::sections).among_idle(),
        c("liburcu-bp, lock, load, unlock", &BP, Member::load),
        c("liburcu-qsbr, lock, load, unlock", &QSBR, Member::load),
        c("liburcu-qsbr, load, quiescent state", &QSBR, Member::special).among_idle(),
    ]
}

/// Ends an empty section. A black box of the guard itself would store the guard and load it in other pieces,
/// so this one only tells the compiler that memory may have changed.
#[inline]
fn hold<G>(guard: G) {
    black_box(());
    drop(guard);
}

/// A row whose loop is in C.
pub(crate) fn c(name: &str, of: &'static C, many: fn(&mut Member, u64)) -> Row {
    Row::new(name, move |round| {
        let mut member = of.join();
        round.time_many(|times| many(&mut member, times));
    })
}
