//! A reader and a writer that run as fast as they can. `torture MODE [SECONDS] [symmetric]` exits with status
//! 1 as soon as one of them detects an error, such as an object that was freed too early, or a writer and a
//! reader that hold a lock at the same time.
//!
//! No tool models membarrier(2), so there is a mode for each module that relies on the asymmetric fence.
//! Where possible, objects are marked instead of freed, so that an error does not cause undefined behaviour.
//! Before each round the reader fills its CPU's store buffer with stores to lines that are not in its cache.
//! As a result, the store that announces the reader becomes visible late, and a writer without a proper fence
//! misses it. With `--cfg mutants`, knee-sync has the error that `KNEE_MUTANT` names, and this program must
//! detect it; see tests/mutants.

use std::process::ExitCode;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU64};

use knee_models::duel::{Duel, Object, Pool};
use knee_sync::System;
use knee_sync::epoch;
use knee_sync::hazard;
use knee_sync::refs::PerCpuRef;
use knee_sync::refs::refcache::{RefcacheArc, tick};
use knee_sync::rm::RmLock;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let mode = arguments.first().map_or("epoch", String::as_str);
    let seconds = arguments.get(1).and_then(|second| second.parse().ok()).unwrap_or(6.0);
    let symmetric = arguments.iter().any(|argument| argument == "symmetric");
    let system = if symmetric { System::symmetric() } else { System::detect() };
    let duel = Duel::of_seconds(seconds);
    match mode {
        "epoch" => sections(&duel, system),
        "hazard" => hazards(&duel, system),
        "percpu" => percpu(&duel, system),
        "refcache" => refcache(&duel),
        "rm" => rm(&duel),
        other => panic!("no mode is called {other}"),
    }
    duel.outcome(mode)
}

fn sections(duel: &Duel, system: System) {
    let (domain, pool) = (epoch::Domain::new(system), Pool::new());
    let reader = || {
        let handle = domain.register();
        duel.read(|checks| {
            let _guard = handle.pin();
            let found = pool.find();
            duel.check(checks, || found.freed.load(Relaxed));
        });
    };
    let writer = || {
        pool.replace(duel, |old| {
            domain.synchronize();
            old.freed.store(true, Relaxed);
        });
    };
    duel.fight(reader, writer);
}

fn hazards(duel: &Duel, system: System) {
    unsafe fn free(object: *mut ()) {
        // SAFETY: the pointer points to an object of the pool.
        unsafe { &*object.cast::<Object>() }.freed.store(true, Relaxed);
    }
    let pool = Pool::new();
    let domain = hazard::Domain::with_batch(system, 1);
    let reader = || {
        let handle = domain.register();
        duel.read(|checks| {
            // SAFETY: the writer that replaces the object retires it to this domain.
            let found = unsafe { handle.protect(&pool.current) }.expect("there is always one");
            duel.check(checks, || found.freed.load(Relaxed));
        });
    };
    let writer = || {
        let handle = domain.register();
        pool.replace(duel, |old| {
            let old = std::ptr::from_ref(old).cast_mut();
            // SAFETY: the exchange has unlinked the object, and the pool uses it again only after `free` has
            // marked it as freed. The pool outlives the domain.
            unsafe { handle.retire_with(old.cast(), free) };
        });
    };
    duel.fight(reader, writer);
}

fn percpu(duel: &Duel, system: System) {
    let (count, released) = (PerCpuRef::new(system), AtomicBool::new(false));
    let release = |is_last| {
        if is_last {
            duel.object(released.swap(true, Release));
        }
    };
    let reader = || {
        duel.read(|checks| {
            // SAFETY: no other thread has this number.
            unsafe {
                if count.tryget_live_as(0) {
                    duel.check(checks, || released.load(Relaxed));
                    release(count.put_as(0));
                }
            }
        });
    };
    let writer = || {
        for round in 0_u64.. {
            if duel.is_over() {
                return;
            }
            // Varies the point in the reader's round at which the count is killed.
            duel.wait_for_rounds(1);
            (0..round % 32).for_each(|_| std::hint::spin_loop());
            release(count.kill());
            // By the end of its current round, the reader has put its reference.
            duel.wait_for_rounds(2);
            let is_zero = released.load(Acquire) && count.is_zero();
            duel.object(!duel.is_over() && !is_zero);
            // If the reader still uses its reference, this delay gives it time to detect the release.
            (0..20).for_each(|_| std::hint::spin_loop());
            if !duel.is_over() {
                released.store(false, Relaxed);
                count.reinit();
            }
        }
    };
    duel.fight(reader, writer);
}

fn refcache(duel: &Duel) {
    struct Value(&'static AtomicBool);
    impl Drop for Value {
        fn drop(&mut self) {
            self.0.store(true, Relaxed);
        }
    }
    /// The number of clones of a value before its last reference is dropped. The number is small: over many
    /// clones, a delta that is counted twice could cancel a lost one, and the test would miss both errors.
    const CLONES: u64 = 500;
    static FREED: AtomicBool = AtomicBool::new(false);
    let ticks = AtomicU64::new(0);
    let reader = || {
        let mut value = Some(RefcacheArc::new(Value(&FREED)));
        let mut round = 0;
        duel.read(|checks| {
            round += 1;
            if let Some(shared) = value.as_ref().filter(|_| round % CLONES != 0) {
                let clone = shared.clone();
                duel.check(checks, || FREED.load(Relaxed));
                drop(clone);
                if duel.is_over() {
                    // The value may have been freed.
                    std::mem::forget(value.take());
                }
                return;
            }
            drop(value.take());
            let dropped = ticks.load(Acquire);
            while ticks.load(Acquire) < dropped + 4 && !duel.is_over() {
                std::hint::spin_loop();
            }
            duel.object(!duel.is_over() && !FREED.swap(false, Relaxed));
            value = Some(RefcacheArc::new(Value(&FREED)));
        });
        std::mem::forget(value);
    };
    let writer = || {
        while !duel.is_over() {
            tick();
            ticks.fetch_add(1, Release);
        }
    };
    duel.fight(reader, writer);
}

fn rm(duel: &Duel) {
    /// The number of reads before each write. During these reads, a reader usually opens the lock's fast path
    /// again.
    const READS: u64 = 20;
    let (lock, writing) = (RmLock::new(()), AtomicBool::new(false));
    let reader = || {
        duel.read(|checks| {
            let _guard = lock.read();
            duel.check(checks, || writing.load(Relaxed));
        });
    };
    let writer = || {
        for round in 0_u64.. {
            duel.wait_for_rounds(READS);
            if duel.is_over() {
                return;
            }
            let guard = if round % 2 == 0 { Some(lock.write()) } else { lock.try_write() };
            if let Some(guard) = guard {
                writing.store(true, Release);
                (0..20).for_each(|_| std::hint::spin_loop());
                writing.store(false, Release);
                drop(guard);
            }
        }
    };
    duel.fight(reader, writer);
}
