//! What the primitives cost, beside what the standard library has: nanoseconds for each operation, with
//! one thread and with two. `cost [ROUNDS]`, on a machine that does nothing else.
//!
//! Threads are bound to CPUs and begin a round together; a round counts if none of them was switched
//! out; the figure is the median of rounds.

use std::hint::black_box;
use std::sync::atomic::Ordering::{AcqRel, Relaxed};
use std::sync::atomic::{AtomicPtr, AtomicU64};
use std::sync::{Arc, Barrier, RwLock};
use std::thread;
use std::time::Instant;

use knee_sync::refs::PerCpuRef;
use knee_sync::rm::RmLock;
use knee_sync::{Rcu, System, epoch, hazard};

/// Operations in a round: some hundred microseconds.
const OPERATIONS: u32 = 20_000;

fn main() {
    let rounds = std::env::args().nth(1).and_then(|rounds| rounds.parse().ok()).unwrap_or(500);
    println!("| | 1 thread | 2 threads |\n| --- | ---: | ---: |");
    row(rounds, "nothing", || {
        black_box(());
    });
    row(rounds, "`epoch::pin`, drop", || drop(black_box(epoch::pin())));
    row(rounds, "`epoch::section`, drop", || drop(black_box(epoch::section())));
    let rcu = Rcu::new(1_u64);
    row(rounds, "`Rcu::load` under `pin`", || {
        black_box(*rcu.load(&epoch::pin()));
    });
    row(rounds, "`epoch`: allocate, defer_drop, free", || {
        let own = AtomicPtr::new(Box::into_raw(Box::new(1_u64)));
        let old = own.swap(std::ptr::null_mut(), AcqRel);
        // SAFETY: nobody else has it.
        unsafe { epoch::pin().defer_drop(old) };
    });
    row(rounds, "allocate, free", || drop(black_box(Box::new(1_u64))));
    let boxed = hazard::AtomicBox::new(1_u64);
    row(rounds, "`hazard`: protect, drop", || {
        black_box(boxed.load().as_deref());
    });
    let counted = PerCpuRef::new(System::detect());
    row(rounds, "`PerCpuRef` get, put", || {
        counted.get();
        black_box(counted.put());
    });
    let shared = Arc::new(());
    row(rounds, "`Arc` clone, drop", || drop(black_box(Arc::clone(&shared))));
    let rm = RmLock::new(1_u64);
    row(rounds, "`RmLock` read", || {
        black_box(*rm.read());
    });
    let rwlock = RwLock::new(1_u64);
    row(rounds, "`std::sync::RwLock` read", || {
        black_box(*rwlock.read().expect("not poisoned"));
    });
    let count = AtomicU64::new(0);
    row(rounds, "`fetch_add` on one word", || {
        black_box(count.fetch_add(1, Relaxed));
    });
}

/// Prints a row. Generic, as a call through a pointer costs more than some of the operations.
fn row(rounds: usize, name: &str, operation: impl Fn() + Sync) {
    let [one, two] = [1, 2].map(|threads| measure(threads, rounds, &operation));
    println!("| {name} | {one:.2} | {two:.2} |");
}

/// The median over rounds of nanoseconds for each operation of a thread.
fn measure(threads: usize, rounds: usize, operation: &(impl Fn() + Sync)) -> f64 {
    let barrier = Barrier::new(threads);
    let mut nanos = Vec::new();
    let run = |cpu: usize| {
        bind(cpu);
        let mut nanos = Vec::with_capacity(rounds);
        for _ in 0..rounds {
            barrier.wait();
            let (switches, begin) = (switches(), Instant::now());
            for _ in 0..OPERATIONS {
                operation();
            }
            let end = begin.elapsed();
            if self::switches() == switches {
                nanos.push(end.as_nanos() as f64 / f64::from(OPERATIONS));
            }
        }
        nanos
    };
    thread::scope(|scope| {
        let runs: Vec<_> = (0..threads).map(|cpu| scope.spawn(move || run(cpu))).collect();
        for run in runs {
            nanos.extend(run.join().expect("no operation panics"));
        }
    });
    nanos.sort_by(f64::total_cmp);
    nanos.get(nanos.len() / 2).copied().unwrap_or(f64::NAN)
}

/// How often the thread was switched out because another had its turn.
fn switches() -> i64 {
    // SAFETY: the struct is plain data.
    unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_THREAD, &mut usage);
        usage.ru_nivcsw
    }
}

fn bind(cpu: usize) {
    // SAFETY: the set is plain data, of the size that is given.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu, &mut set);
        libc::sched_setaffinity(0, size_of_val(&set), &set);
    }
}
