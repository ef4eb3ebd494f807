//! Checks whether this machine's CPUs reorder accesses. The torture test can notice mutants only on CPUs that
//! reorder accesses.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::thread;
use std::time::{Duration, Instant};

/// A word in a cache line of its own.
#[derive(Default)]
#[repr(align(128))]
struct Line(AtomicU64);

/// Whether two threads that run at the same time can each miss what the other has just stored: *store
/// buffering* (Owens, Sarkar and Sewell, "A Better x86 Memory Model", 2009). Without store buffering, every
/// mutant survives the torture test. Store buffering does not happen if the host runs all threads on one CPU.
/// The function tries for at most `patience`.
pub(crate) fn stores_are_late(patience: Duration) -> bool {
    let stored: [Line; 2] = Default::default();
    let missed: [Line; 2] = Default::default();
    let (arrived, over, found) = (Line::default(), AtomicBool::new(false), AtomicBool::new(false));
    let meet = |meetings: &mut u64| {
        *meetings += 2;
        arrived.0.fetch_add(1, AcqRel);
        while arrived.0.load(Acquire) < *meetings {
            std::hint::spin_loop();
        }
    };
    let end = Instant::now() + patience;
    let run = |own: usize| {
        let mut meetings = 0;
        for round in 1.. {
            meet(&mut meetings);
            if over.load(Relaxed) {
                return;
            }
            stored[own].0.store(round, Relaxed);
            let is_missed = stored[1 - own].0.load(Relaxed) < round;
            missed[own].0.store(is_missed.into(), Relaxed);
            meet(&mut meetings);
            if own == 0 {
                let both = missed.iter().all(|missed| missed.0.load(Relaxed) == 1);
                found.fetch_or(both, Relaxed);
                over.store(both || Instant::now() > end, Relaxed);
            }
        }
    };
    thread::scope(|scope| {
        scope.spawn(|| run(1));
        run(0);
    });
    found.into_inner()
}

#[cfg(test)]
mod tests {
    use super::*;

    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

    #[test]
    fn threads_that_share_one_cpu_miss_no_stores() {
        // Threads inherit the affinity of the thread that starts them.
        let missed = thread::spawn(|| {
            let allowed = sched_getaffinity(None).unwrap();
            let mut one = CpuSet::new();
            one.set((0..CpuSet::MAX_CPU).find(|&cpu| allowed.is_set(cpu)).unwrap());
            sched_setaffinity(None, &one).unwrap();
            stores_are_late(Duration::from_millis(200))
        });
        assert!(!missed.join().unwrap());
    }
}
