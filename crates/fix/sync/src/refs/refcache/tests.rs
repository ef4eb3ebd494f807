use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering::SeqCst};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Barrier, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use super::{RefcacheArc, Ticker, Weak, tick};

const ROUNDS: usize = if cfg!(miri) { 20 } else { 3_000 };

/// Lets one test run at a time: the tests share the process's epochs, and count ticks.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A value with its true reference count, and a flag that the drop of the value sets.
struct Counted {
    live: Arc<AtomicUsize>,
    /// The true count. The tests decrement it before they drop a reference.
    references: AtomicI64,
    gone: AtomicBool,
}

impl Counted {
    fn new(live: &Arc<AtomicUsize>) -> RefcacheArc<Counted> {
        live.fetch_add(1, SeqCst);
        let (live, gone) = (Arc::clone(live), AtomicBool::new(false));
        RefcacheArc::new(Counted { live, references: AtomicI64::new(1), gone })
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        assert_eq!(self.references.load(SeqCst), 0);
        assert!(!self.gone.swap(true, SeqCst), "freed twice");
        self.live.fetch_sub(1, SeqCst);
    }
}

fn clone(shared: &RefcacheArc<Counted>) -> RefcacheArc<Counted> {
    assert!(!shared.gone.load(SeqCst), "freed early");
    shared.references.fetch_add(1, SeqCst);
    shared.clone()
}

fn release(shared: RefcacheArc<Counted>) {
    shared.references.fetch_sub(1, SeqCst);
    drop(shared);
}

fn upgrade(weak: &Weak<Counted>) -> Option<RefcacheArc<Counted>> {
    let shared = weak.upgrade()?;
    shared.references.fetch_add(1, SeqCst);
    Some(shared)
}

#[test]
fn references_compare_hash_and_print_as_their_values_do() {
    let (one, two) = (RefcacheArc::<_>::from("one".to_owned()), RefcacheArc::new("two".to_owned()));
    assert!(one < two && one == RefcacheArc::new("one".to_owned()));
    assert!(RefcacheArc::ptr_eq(&one, &one.clone()));
    assert!(!RefcacheArc::ptr_eq(&one, &RefcacheArc::new("one".to_owned())));
    assert_eq!(format!("{one} {two:?}"), "one \"two\"");
    let key = "one".to_owned();
    assert!(HashSet::from([one]).contains(&key));
    assert_eq!(*RefcacheArc::<u32>::default(), 0);
}

#[test]
fn a_value_is_freed_by_the_third_tick_and_not_before_two_epochs_have_begun() {
    let _alone = alone();
    let live = Arc::default();
    let first = Counted::new(&live);
    let second = clone(&first);
    release(first);
    (0..4).for_each(|_| tick());
    assert_eq!(live.load(SeqCst), 1);
    release(second);
    tick();
    assert_eq!(live.load(SeqCst), 1, "another thread's cache may have a reference");
    (0..2).for_each(|_| tick());
    assert_eq!(live.load(SeqCst), 0);
}

#[test]
fn references_in_the_cache_of_a_sleeping_thread_are_counted() {
    let _alone = alone();
    let live = Arc::default();
    let shared = Counted::new(&live);
    let asleep = Barrier::new(2);
    thread::scope(|scope| {
        let (give, take) = sync_channel(1);
        scope.spawn(|| {
            // The delta of the clone is in this thread's cache. The other thread drops the clone.
            let (give, shared) = (give, shared);
            give.send(clone(&shared)).unwrap();
            release(shared);
            asleep.wait();
            asleep.wait();
        });
        let other: RefcacheArc<Counted> = take.recv().unwrap();
        asleep.wait();
        (0..5).for_each(|_| tick());
        assert_eq!(live.load(SeqCst), 1);
        release(other);
        (0..3).for_each(|_| tick());
        assert_eq!(live.load(SeqCst), 0);
        asleep.wait();
    });
}

#[test]
fn a_delta_of_zero_shows_that_a_value_is_in_use() {
    let _alone = alone();
    let live = Arc::default();
    let shared = Counted::new(&live);
    let weak = shared.downgrade();
    release(shared);
    // Each upgraded reference is dropped immediately, so the count stays zero. The delta of zero still shows
    // that the value is in use.
    for _ in 0..10 {
        tick();
        let again = upgrade(&weak).expect("the value was in use in the last epoch");
        release(again);
    }
    (0..3).for_each(|_| tick());
    assert_eq!(live.load(SeqCst), 0);
    assert!(weak.upgrade().is_none());
}

#[test]
fn an_upgrade_revives_a_value_without_references() {
    let _alone = alone();
    let live = Arc::default();
    let shared = Counted::new(&live);
    let weak = shared.downgrade();
    release(shared);
    tick();
    let again = upgrade(&weak).unwrap();
    (0..6).for_each(|_| tick());
    assert!(!again.gone.load(SeqCst));
    let other = again.downgrade();
    release(again);
    (0..3).for_each(|_| tick());
    assert_eq!(live.load(SeqCst), 0);
    assert!(weak.upgrade().is_none() && other.upgrade().is_none());
}

#[test]
fn values_that_share_a_slot_are_counted() {
    let _alone = alone();
    let live = Arc::default();
    // There are more values than slots in a cache, so some values share a slot.
    let values: Vec<_> =
        (0..if cfg!(miri) { 300 } else { 1024 }).map(|_| Counted::new(&live)).collect();
    for _ in 0..3 {
        let clones: Vec<_> = values.iter().map(clone).collect();
        tick();
        clones.into_iter().rev().for_each(release);
    }
    assert_eq!(live.load(SeqCst), values.len());
    values.into_iter().for_each(release);
    (0..3).for_each(|_| tick());
    assert_eq!(live.load(SeqCst), 0);
}

#[test]
fn a_destructor_may_drop_other_references_and_tick() {
    struct Parent(Option<RefcacheArc<Counted>>);
    impl Drop for Parent {
        fn drop(&mut self) {
            self.0.take().map(release).expect("it is dropped once");
            tick();
        }
    }
    let _alone = alone();
    let live = Arc::default();
    drop(RefcacheArc::new(Parent(Some(Counted::new(&live)))));
    (0..6).for_each(|_| tick());
    assert_eq!(live.load(SeqCst), 0);
}

#[test]
fn threads_that_clone_drop_and_upgrade_never_see_a_freed_value() {
    const THREADS: usize = 3;
    const VALUES: usize = 5;
    let _alone = alone();
    let live = Arc::default();
    let end = AtomicBool::new(false);
    // Each element has a weak reference, and possibly a strong reference. Any thread may replace both
    // references.
    let places: Vec<_> = (0..VALUES)
        .map(|_| {
            let shared = Counted::new(&live);
            Mutex::new((shared.downgrade(), Some(shared)))
        })
        .collect();
    thread::scope(|scope| {
        let ticking = scope.spawn(|| {
            while !end.load(SeqCst) {
                tick();
                thread::yield_now();
            }
        });
        let workers: Vec<_> = (0..THREADS)
            .map(|thread| {
                let (live, places) = (&live, &places);
                scope.spawn(move || {
                    let mut held: Vec<RefcacheArc<Counted>> = Vec::new();
                    for round in 0..ROUNDS {
                        let mut place = places[(round * (thread + 2)) % VALUES].lock().unwrap();
                        match (round + thread) % 5 {
                            0 => held.extend(place.1.as_ref().map(clone)),
                            1 => held.extend(upgrade(&place.0)),
                            2 => {
                                if let Some(shared) = place.1.take() {
                                    release(shared);
                                }
                            }
                            3 => match upgrade(&place.0) {
                                Some(shared) => {
                                    if let Some(old) = place.1.replace(shared) {
                                        release(old);
                                    }
                                }
                                None => {
                                    let shared = Counted::new(live);
                                    *place = (shared.downgrade(), Some(shared));
                                }
                            },
                            _ => {
                                if let Some(shared) = held.pop() {
                                    release(shared);
                                }
                            }
                        }
                        drop(place);
                        for shared in &held {
                            assert!(!shared.gone.load(SeqCst));
                            release(clone(shared));
                        }
                        held.drain(..held.len().saturating_sub(3)).for_each(release);
                    }
                    held.into_iter().for_each(release);
                })
            })
            .collect();
        workers.into_iter().for_each(|worker| worker.join().unwrap());
        end.store(true, SeqCst);
        ticking.join().unwrap();
    });
    places.into_iter().for_each(|place| {
        place.into_inner().unwrap().1.into_iter().for_each(release);
    });
    (0..3).for_each(|_| tick());
    assert_eq!(live.load(SeqCst), 0);
}

#[test]
fn a_ticker_frees_unreferenced_objects() {
    let _alone = alone();
    let live = Arc::default();
    let ticker = Ticker::every(Duration::from_millis(1)).unwrap();
    release(Counted::new(&live));
    while live.load(SeqCst) != 0 {
        thread::yield_now();
    }
    drop(ticker);
}

#[test]
fn an_exiting_thread_may_drop_references() {
    thread_local! {
        // Initialised before the thread registers, so the references are dropped after the thread has
        // unregistered.
        static KEPT: std::cell::RefCell<Vec<Keeper>> = const { std::cell::RefCell::new(Vec::new()) };
    }
    struct Keeper(Option<RefcacheArc<Counted>>);
    impl Drop for Keeper {
        fn drop(&mut self) {
            self.0.take().map(release).expect("it is dropped once");
        }
    }
    let _alone = alone();
    let live = Arc::default();
    thread::scope(|scope| {
        scope.spawn(|| {
            KEPT.with_borrow_mut(|kept| {
                let shared = Counted::new(&live);
                kept.extend([Keeper(Some(clone(&shared))), Keeper(Some(shared))]);
            })
        });
    });
    // The scope may end before the thread's locals are destroyed.
    while live.load(SeqCst) != 0 {
        tick();
        thread::yield_now();
    }
}
