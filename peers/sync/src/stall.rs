//! The amount of garbage behind a reader that does not leave, after it has left, and after the retiring thread
//! has exited. These are counts of objects and not times.

use std::sync::Barrier;
use std::thread;

use crate::reclaim::Reclaim;
use crate::ways::{self, Way, drain, garbage};

/// Objects that are retired behind the reader.
const RETIRED: u64 = 1_000_000;
/// Sections, or protected loads, of the retiring thread after the reader has left.
const VISITS: u64 = 10_000;
/// The number of objects that counts as no garbage.
const DRAINED: i64 = 5_000;
/// Replacements after which the program stops waiting for that.
const MOST: u64 = 2 * RETIRED;
/// Replacements between two checks of the garbage.
const STEP: u64 = 100;
/// Objects that a thread retires before it exits.
const LAST: u64 = 1_000;

/// The result of one way to reclaim: numbers of objects that are retired and not freed, unless stated otherwise.
pub(crate) struct Stall {
    pub(crate) name: &'static str,
    /// While the reader was in its section.
    pub(crate) during: i64,
    /// When it had left.
    pub(crate) left: i64,
    /// After further [`VISITS`] of the thread that had retired them.
    pub(crate) visited: i64,
    /// Replacements until [`DRAINED`]; `None` if [`MOST`] were not enough.
    pub(crate) replacements: Option<u64>,
    /// Of [`LAST`], after their thread had exited and while no other thread was active.
    pub(crate) exited: i64,
}

/// Stalls a reader.
///
/// # Panics
/// If retired objects are never freed.
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
        // Joining also waits for the destructors of thread-locals.
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
