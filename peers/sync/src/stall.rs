//! How much garbage there is: behind a reader that does not leave, after it has left, and after the
//! thread that has retired it exited. Counts of objects, not times.

use std::sync::Barrier;
use std::thread;

use crate::reclaim::Reclaim;
use crate::ways::{self, Way, drain, garbage};

/// Objects that are retired behind the reader.
const RETIRED: u64 = 1_000_000;
/// Sections, or protected loads, of the retiring thread after the reader has left.
const VISITS: u64 = 10_000;
/// As good as no garbage.
const DRAINED: i64 = 5_000;
/// Replacements after which one gives up waiting for that.
const MOST: u64 = 2 * RETIRED;
/// Replacements between two looks at the garbage.
const STEP: u64 = 100;
/// Objects that a thread retires before it exits.
const LAST: u64 = 1_000;

/// What one way to reclaim did. Objects that are retired and not freed, unless it says otherwise.
pub(crate) struct Stall {
    pub(crate) name: &'static str,
    /// While the reader was there.
    pub(crate) during: i64,
    /// When it had left.
    pub(crate) left: i64,
    /// After further [`VISITS`] of the thread that had retired them.
    pub(crate) visited: i64,
    /// Replacements until [`DRAINED`]; none if [`MOST`] were not enough.
    pub(crate) replacements: Option<u64>,
    /// Of [`LAST`], when their thread had exited and nobody did anything.
    pub(crate) exited: i64,
}

/// Stalls a reader.
///
/// # Panics
/// If what is retired is never freed.
pub(crate) fn measure<R: Reclaim>(name: &'static str, reclaim: &'static R) -> Stall {
    drain(name, reclaim);
    let [entered, leave, left] = [(); 3].map(|()| Barrier::new(2));
    let mut stall = thread::scope(|scope| {
        let reader = scope.spawn(|| {
            reclaim.stall(|| {
                entered.wait();
                leave.wait();
            });
            left.wait();
        });
        let retiring = scope.spawn(|| {
            let mut local = reclaim.join(0);
            entered.wait();
            reclaim.replace(&mut local, RETIRED);
            let during = garbage::<R>();
            leave.wait();
            left.wait();
            let at_once = garbage::<R>();
            reclaim.visit(&mut local, VISITS);
            let visited = garbage::<R>();
            let mut replaced = 0;
            while garbage::<R>() >= DRAINED && replaced < MOST {
                reclaim.replace(&mut local, STEP);
                replaced += STEP;
            }
            let replacements = (garbage::<R>() < DRAINED).then_some(replaced);
            Stall { name, during, left: at_once, visited, replacements, exited: 0 }
        });
        // To join waits for destructors of thread-locals, too.
        reader.join().expect("it only waits");
        retiring.join().expect("it only counts")
    });
    drain(name, reclaim);
    let last = thread::spawn(|| reclaim.replace(&mut reclaim.join(0), LAST));
    last.join().expect("it only retires");
    stall.exited = garbage::<R>();
    drain(name, reclaim);
    stall
}

/// Stalls a reader of each way to reclaim.
pub(crate) fn all() -> Vec<Stall> {
    let ways = ways::all();
    let stall = |way: &Way| way.stall.as_ref().map(|stall| stall());
    ways.iter().filter_map(stall).collect()
}
