//! Whether CPUs here do what the torture is to notice.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::thread;
use std::time::{Duration, Instant};

/// A cache line of its own.
#[derive(Default)]
#[repr(align(128))]
struct Place(AtomicU64);

/// Whether two threads run at once here, so that each misses what the other has just stored: *store buffering*
/// (Owens, Sarkar and Sewell, "A Better x86 Memory Model", 2009), which all mutants of the torture come to. Where
/// a host has one CPU for all of ours, they do not, and no torture would notice anything.
pub(crate) fn stores_are_late(patience: Duration) -> bool {
    let places: [Place; 2] = Default::default();
    let missed: [Place; 2] = Default::default();
    let (arrived, over, found) = (Place::default(), AtomicBool::new(false), AtomicBool::new(false));
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
            places[own].0.store(round, Relaxed);
            let is_missed = places[1 - own].0.load(Relaxed) < round;
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
