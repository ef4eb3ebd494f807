//! Models for shuttle: threads get, put, kill and query counts.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering::Relaxed};

use super::{PerCpuRef, Snzi};
use crate::model::{Model, check, thread};

/// A count with its true state. The true state is in atomics of `std`, which are not part of the model.
struct Counted {
    count: PerCpuRef<Model>,
    references: AtomicI64,
    /// How often `new` and `reinit` were called: each of these calls begins a life of the count.
    begun: AtomicUsize,
    ended: AtomicUsize,
}

impl Counted {
    fn new() -> Arc<Counted> {
        Arc::new(Counted {
            count: PerCpuRef::new(Model),
            references: AtomicI64::new(1),
            begun: AtomicUsize::new(1),
            ended: AtomicUsize::new(0),
        })
    }

    fn use_it(&self) {
        assert!(self.references.load(Relaxed) > 0);
        assert!(self.ended.load(Relaxed) < self.begun.load(Relaxed), "used after its release");
    }

    /// Puts a reference, which any thread may have taken.
    fn put(&self, thread: usize) {
        self.use_it();
        self.references.fetch_sub(1, Relaxed);
        // SAFETY: the caller passes a number that no other thread uses.
        self.release_if(unsafe { self.count.put_as(thread) });
    }

    fn release_if(&self, is_last: bool) {
        if is_last {
            assert_eq!(self.references.load(Relaxed), 0, "released with references");
            let ended = self.ended.fetch_add(1, Relaxed) + 1;
            assert_eq!(ended, self.begun.load(Relaxed), "released twice");
        }
    }
}

#[test]
fn each_life_of_a_count_ends_once() {
    const USERS: usize = 4;
    check(|| {
        let counted = Counted::new();
        let users = (0..USERS).map(|user| {
            let counted = Arc::clone(&counted);
            thread::spawn(move || {
                // SAFETY: only this thread uses the number.
                while unsafe { counted.count.tryget_live_as(user) } {
                    counted.references.fetch_add(1, Relaxed);
                    counted.use_it();
                    // SAFETY: only this thread uses the number.
                    unsafe { counted.count.get_as(user) };
                    counted.references.fetch_add(1, Relaxed);
                    counted.put(user);
                    // Another thread, with a different counter, puts the second reference.
                    let other = Arc::clone(&counted);
                    thread::spawn(move || other.put(USERS + user)).join().unwrap();
                }
            })
        });
        let users: Vec<_> = users.collect();
        let kills = {
            let counted = Arc::clone(&counted);
            thread::spawn(move || {
                for life in 1..=3 {
                    counted.references.fetch_sub(1, Relaxed);
                    counted.release_if(counted.count.kill());
                    // SAFETY: only this thread uses the number.
                    assert!(
                        !unsafe { counted.count.tryget_live_as(2 * USERS) },
                        "a dead count took a user"
                    );
                    while !counted.count.is_zero() {
                        thread::yield_now();
                    }
                    if life == 3 {
                        return;
                    }
                    // Wait until the thread that put the last reference has counted the end of this life.
                    while counted.ended.load(Relaxed) < life {
                        thread::yield_now();
                    }
                    counted.references.store(1, Relaxed);
                    counted.begun.fetch_add(1, Relaxed);
                    counted.count.reinit();
                }
            })
        };
        users.into_iter().chain([kills]).for_each(|thread| thread.join().unwrap());
        assert_eq!(counted.ended.load(Relaxed), 3);
    });
}

#[test]
fn a_count_that_two_threads_kill_is_dead_for_both() {
    check(|| {
        let counted = Counted::new();
        let in_thread = |does: fn(&Counted, usize), thread: usize| {
            let counted = Arc::clone(&counted);
            thread::spawn(move || does(&counted, thread))
        };
        // SAFETY: only this thread uses the number.
        unsafe { counted.count.get_as(0) };
        counted.references.fetch_add(1, Relaxed);
        let uses = |counted: &Counted, thread: usize| {
            // SAFETY: only this thread uses the number.
            if unsafe { counted.count.tryget_live_as(thread) } {
                counted.references.fetch_add(1, Relaxed);
                counted.put(thread);
            }
        };
        let kills = |counted: &Counted, thread: usize| {
            let is_last = counted.count.kill();
            assert!(counted.count.is_dead());
            // SAFETY: only this thread uses the number.
            assert!(!unsafe { counted.count.tryget_live_as(thread) }, "a dead count took a user");
            // The main thread still has its reference.
            assert!(!is_last, "released with references");
        };
        let all =
            [in_thread(uses, 1), in_thread(uses, 2), in_thread(kills, 3), in_thread(kills, 4)];
        all.into_iter().for_each(|thread| thread.join().unwrap());
        // One of the two kills has put the owner's reference.
        counted.references.fetch_sub(1, Relaxed);
        counted.put(0);
        assert_eq!(counted.ended.load(Relaxed), 1);
    });
}

#[test]
fn the_indicator_is_set_while_any_of_five_threads_has_arrived() {
    check(|| {
        // Of nine leaves, the last two (7 and 8) are below an inner node, and the others are below the root.
        let snzi = Arc::new(Snzi::new(9));
        let all = [0, 0, 1, 7, 8].map(|leaf| {
            let snzi = Arc::clone(&snzi);
            thread::spawn(move || {
                for _ in 0..2 {
                    let arrival = snzi.arrive_at(leaf);
                    assert!(snzi.query(), "this thread has arrived");
                    drop(arrival);
                }
            })
        });
        all.into_iter().for_each(|thread| thread.join().unwrap());
        assert!(!snzi.query(), "all have departed");
    });
}
