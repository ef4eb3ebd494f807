use std::mem;
use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Barrier, mpsc};
use std::thread;

use super::{RawRmLock, RmLock};
use super::{ThisProcess, Threads};
use lock_api::RawRwLock;

const ROUNDS: usize = if cfg!(miri) { 30 } else { 20_000 };

/// An open lock: readers take it through their slots. Every lock is open after its first read.
fn open<T>(value: T) -> RmLock<T> {
    let lock = RmLock::new(value);
    drop(lock.read());
    lock
}

#[test]
fn a_writer_excludes_readers_and_writers() {
    for waits in [false, true] {
        let pair = RmLock::new((0_u64, 0_u64));
        let writes = thread::scope(|scope| {
            let reader = || {
                for round in 0..ROUNDS {
                    let guard = pair.read();
                    assert_eq!(guard.0, guard.1);
                    if round % 64 == 0 {
                        thread::yield_now();
                        assert_eq!(guard.0, guard.1);
                    }
                }
            };
            scope.spawn(reader);
            scope.spawn(reader);
            let writer = || {
                let mut writes = 0;
                for round in 0..ROUNDS / 4 {
                    // After a `write`, the lock stays shut for a while. If a `try_write` fails
                    // because of readers, the lock stays open.
                    let guard = if waits { Some(pair.write()) } else { pair.try_write() };
                    if let Some(mut guard) = guard {
                        guard.0 += 1;
                        if round % 64 == 0 {
                            thread::yield_now();
                        }
                        guard.1 += 1;
                        writes += 1;
                    }
                }
                writes
            };
            let writers = [scope.spawn(writer), scope.spawn(writer)];
            writers.into_iter().map(|writer| writer.join().unwrap()).sum::<u64>()
        });
        assert_eq!(*pair.read(), (writes, writes));
    }
}

#[test]
fn try_write_fails_during_a_read_and_try_read_fails_during_a_write() {
    let lock = open(1);
    let reader = lock.read();
    assert!(lock.try_write().is_none());
    assert!(lock.try_read().is_some(), "a failed try_write leaves the lock readable");
    drop(reader);
    let writer = lock.try_write().expect("there is no reader");
    thread::scope(|scope| {
        scope.spawn(|| assert!(lock.try_read().is_none() && lock.try_write().is_none()));
    });
    drop(writer);
    assert!(lock.try_read().is_some());
}

#[test]
fn a_reader_may_read_again_while_a_writer_waits() {
    // A lock's first read takes the underlying lock, and later reads take a slot. In both cases, the writer
    // waits for the guard `first`.
    for is_open in [false, true] {
        let lock = if is_open { open(0) } else { RmLock::new(0) };
        let first = lock.read();
        thread::scope(|scope| {
            scope.spawn(|| *lock.write() += 1);
            // Wait until readers can no longer take the underlying lock: from then on, the writer is waiting.
            // SAFETY: every lock taken here is released here.
            let below = unsafe { lock.raw() }.bias.below();
            while below.try_lock_shared() {
                // SAFETY: every lock taken here is released here.
                unsafe { below.unlock_shared() };
                thread::yield_now();
            }
            let second = lock.read();
            let third = lock.try_read().expect("a reader may read again");
            drop(first);
            assert_eq!((*second, *third), (0, 0), "no writer is inside");
        });
        assert_eq!(*lock.read(), 1);
    }
}

#[test]
fn a_thread_holds_more_read_locks_than_it_has_slots() {
    let locks: Vec<_> = (0..9).map(open).collect();
    let mut guards: Vec<_> = locks.iter().chain(&locks).map(RmLock::read).collect();
    assert!(locks.iter().all(|lock| lock.try_write().is_none()));
    // Drops the oldest guards first.
    guards.drain(..9);
    assert!(locks.iter().all(|lock| lock.try_write().is_none()), "each lock still has a reader");
    drop(guards);
    assert!(locks.iter().all(|lock| lock.try_write().is_some()));
}

#[test]
fn a_panic_unlocks() {
    let lock = open(0);
    let read = panic::catch_unwind(AssertUnwindSafe(|| {
        let _guard = lock.read();
        panic!("in a reader");
    }));
    let write = panic::catch_unwind(AssertUnwindSafe(|| {
        let _guard = lock.write();
        panic!("in a writer");
    }));
    assert!(read.is_err() && write.is_err());
    assert!(lock.try_write().is_some());
}

#[test]
fn a_forgotten_guard_does_not_lock_a_later_lock_at_the_same_address() {
    let mut place = open(0);
    mem::forget(place.read());
    assert!(place.try_write().is_none());
    place = open(0);
    // If a read were mistaken for a recursive read, it would succeed while the writer holds the lock.
    thread::scope(|scope| {
        let writer = place.write();
        let (inside, is_inside) = mpsc::channel();
        let place = &place;
        scope.spawn(move || inside.send(place.try_read().is_some()).unwrap());
        assert!(!is_inside.recv().unwrap());
        assert!(place.try_read().is_none(), "the forgotten guard belongs to another lock");
        drop(writer);
    });
    assert!(place.try_write().is_some());
}

#[test]
fn a_lock_may_move() {
    let first = open(3);
    drop(first.read());
    let second = Box::new(first);
    assert_eq!(*second.read(), 3);
    assert!(second.try_write().is_some());
    assert_eq!(second.into_inner(), 3);
}

#[test]
fn slots_of_exited_threads_are_reused() {
    let lock = open(0);
    let nodes = || ThisProcess::readers().count();
    let threads = if cfg!(miri) { 3 } else { 100 };
    let before = nodes();
    for _ in 0..threads {
        thread::scope(|scope| {
            scope.spawn(|| drop(lock.read()));
        });
    }
    // Tests that run at the same time also register a few threads each.
    assert!(nodes() < before + threads.max(40), "{before} and {}", nodes());
}

#[test]
fn a_destructor_of_a_thread_local_value_may_read() {
    static LOCK: RmLock<AtomicUsize> = RmLock::new(AtomicUsize::new(0));
    struct Reads;
    impl Drop for Reads {
        fn drop(&mut self) {
            let outer = LOCK.read();
            LOCK.read().fetch_add(1, Relaxed);
            drop(outer);
        }
    }
    thread_local!(static BEFORE: Reads = const { Reads });
    thread_local!(static AFTER: Reads = const { Reads });
    // One of the two values is destroyed before the thread's slots, and the other value after the slots.
    thread::spawn(|| {
        BEFORE.with(|_| ());
        drop(LOCK.read());
        AFTER.with(|_| ());
    })
    .join()
    .unwrap();
    assert_eq!(LOCK.write().load(Relaxed), 2);
}

#[test]
fn a_guard_in_thread_local_storage_locks_until_it_is_dropped() {
    type Guard = lock_api::ArcRwLockReadGuard<RawRmLock, u32>;
    thread_local!(static GUARD: std::cell::Cell<Option<Guard>> = const { std::cell::Cell::new(None) });
    let lock = Arc::new(open(0));
    let kept = Arc::clone(&lock);
    let (told, tell) = (Arc::new(Barrier::new(2)), Arc::new(Barrier::new(2)));
    let (told2, tell2) = (Arc::clone(&told), Arc::clone(&tell));
    let thread = thread::spawn(move || {
        GUARD.set(None);
        GUARD.set(Some(kept.read_arc()));
        told2.wait();
        tell2.wait();
    });
    told.wait();
    assert!(lock.try_write().is_none());
    tell.wait();
    thread.join().unwrap();
    assert!(lock.try_write().is_some());
}

#[test]
fn a_writer_that_sleeps_is_woken_when_the_reader_leaves() {
    let lock = open(0);
    let guard = lock.read();
    thread::scope(|scope| {
        let writer = scope.spawn(|| *lock.write() = 1);
        // The sleep usually lasts longer than a writer spins. If the sleep is shorter, the test still passes.
        thread::sleep(std::time::Duration::from_millis(20));
        assert!(!writer.is_finished());
        assert_eq!(*guard, 0);
        drop(guard);
    });
    assert_eq!(*lock.read(), 1);
}
