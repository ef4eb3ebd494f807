//! A torture test of [`Epoch`], the form of delayed invalidation that FreeBSD tried in 2018: a reader and a
//! writer run as fast as they can. `torture_epoch epoch [SECONDS]` exits with status 1 as soon as the reader
//! finds a freed object. See the example `torture` of knee-sync.

use std::process::ExitCode;
use std::sync::atomic::Ordering::Relaxed;

use knee_baselines::invalidation::{Epoch, Stamp, Tracker};
use knee_models::duel::{Duel, Pool};

fn main() -> ExitCode {
    let seconds = std::env::args().nth(2).and_then(|seconds| seconds.parse().ok()).unwrap_or(6.0);
    let duel = Duel::of_seconds(seconds);
    let (tracker, stamp, pool) = (Tracker::new(Epoch::new()), Stamp::new(), Pool::new());
    let reader = || {
        let mut member = tracker.join();
        duel.read(|checks| {
            let section = member.begin();
            let found = pool.find();
            duel.check(checks, || found.freed.load(Relaxed));
            section.finish();
        });
    };
    let writer = || {
        pool.replace(&duel, |old| {
            tracker.wait(&stamp);
            old.freed.store(true, Relaxed);
        });
    };
    duel.fight(reader, writer);
    duel.outcome("epoch")
}
