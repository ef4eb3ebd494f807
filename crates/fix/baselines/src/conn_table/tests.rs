use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Arc, mpsc};
use std::thread;

use super::*;

fn id(number: u16) -> FourTuple {
    FourTuple {
        local: SocketAddrV4::new(Ipv4Addr::new(192, 0, 2, 1), 443),
        foreign: SocketAddrV4::new(Ipv4Addr::new(198, 51, 100, 7), number),
    }
}

fn is_found_until_it_is_removed(table: &impl ConnTable<u16>) {
    for number in 0..20 {
        assert_eq!(table.insert(id(number), number), Ok(()));
    }
    assert_eq!(table.insert(id(7), 700), Err(700), "the connection is already open");
    for number in (0..20).step_by(2) {
        assert_eq!(table.remove(&id(number)), Some(number));
        assert_eq!(table.remove(&id(number)), None);
    }
    for number in 0..20 {
        let found = table.lookup(&id(number), |connection| *connection);
        assert_eq!(found, (number % 2 == 1).then_some(number));
    }
    assert_eq!(table.insert(id(0), 1000), Ok(()));
    table.lookup(&id(0), |connection| *connection += 1);
    assert_eq!(table.remove(&id(0)), Some(1001));
}

#[test]
fn a_connection_is_found_until_it_is_removed() {
    // With few buckets, the lists are long.
    is_found_until_it_is_removed(&LockedTable::with_buckets(3));
    is_found_until_it_is_removed(&EpochTable::with_buckets(3));
}

/// A connection that counts its drops.
struct Counted(Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_add(1, Relaxed);
    }
}

fn drops_its_connections(table: impl ConnTable<Counted>) {
    let dropped = Arc::new(AtomicUsize::new(0));
    for number in 0..3 {
        assert!(table.insert(id(number), Counted(Arc::clone(&dropped))).is_ok());
    }
    drop(table.remove(&id(1)));
    assert_eq!(dropped.load(Relaxed), 1);
    drop(table);
    assert_eq!(dropped.load(Relaxed), 3);
}

#[test]
fn dropping_a_table_drops_its_connections() {
    drops_its_connections(LockedTable::with_buckets(1));
    drops_its_connections(EpochTable::with_buckets(1));
}

fn a_removal_waits_for_a_lookup(table: &impl ConnTable<()>) {
    let left = AtomicBool::new(false);
    table.insert(id(1), ()).unwrap();
    thread::scope(|scope| {
        let (has, wait) = mpsc::channel();
        let left = &left;
        scope.spawn(move || {
            table.lookup(&id(1), |()| {
                has.send(()).unwrap();
                for _ in 0..100 {
                    thread::yield_now();
                }
                left.store(true, Release);
            });
        });
        wait.recv().unwrap();
        assert_eq!(table.remove(&id(1)), Some(()));
        assert!(left.load(Acquire));
    });
}

#[test]
fn a_connection_is_not_removed_during_a_lookup() {
    a_removal_waits_for_a_lookup(&LockedTable::with_buckets(1));
    a_removal_waits_for_a_lookup(&EpochTable::with_buckets(1));
}

/// A connection with a flag, which is set by the thread that has closed the connection.
struct Opened(Arc<AtomicBool>);

/// Two threads open and close connections, and others look them up. A connection stays open while a lookup
/// uses it.
fn finds_no_freed_connection(table: &impl ConnTable<Opened>) {
    const CONNECTIONS: u16 = 4;
    let rounds = if cfg!(miri) { 20 } else { 5_000 };
    let (over, found) = (AtomicBool::new(false), AtomicUsize::new(0));
    let open_and_close = |first: u16| {
        for round in 0..rounds {
            let id = id(first + round % (CONNECTIONS / 2));
            let closed = Arc::new(AtomicBool::new(false));
            assert!(table.insert(id, Opened(Arc::clone(&closed))).is_ok());
            if round % 8 == 0 {
                thread::yield_now();
            }
            let removed = table.remove(&id).expect("only this thread removes it");
            closed.store(true, Release);
            assert!(Arc::ptr_eq(&removed.0, &closed), "another connection was removed");
        }
    };
    let look_up = || {
        let mut number = 0;
        while !over.load(Relaxed) {
            number = (number + 1) % CONNECTIONS;
            let closed = table.lookup(&id(number), |connection| connection.0.load(Acquire));
            assert_ne!(closed, Some(true), "a freed connection was found");
            found.fetch_add(usize::from(closed.is_some()), Relaxed);
        }
    };
    let (open_and_close, look_up) = (&open_and_close, &look_up);
    thread::scope(|scope| {
        let writers = [0, CONNECTIONS / 2].map(|first| scope.spawn(move || open_and_close(first)));
        for _ in 0..2 {
            scope.spawn(look_up);
        }
        // The lookups also end if a writer has panicked.
        let ended = writers.map(|writer| writer.join());
        over.store(true, Relaxed);
        ended.into_iter().for_each(Result::unwrap);
    });
    assert!(cfg!(miri) || found.load(Relaxed) > 0, "no lookup found a connection");
    for number in 0..CONNECTIONS {
        assert!(table.lookup(&id(number), |_| ()).is_none());
    }
}

#[test]
fn a_lookup_never_finds_a_freed_connection() {
    // All connections are in one list, which changes while lookups walk it.
    finds_no_freed_connection(&LockedTable::with_buckets(1));
    finds_no_freed_connection(&EpochTable::with_buckets(1));
}

#[test]
fn a_lookup_sees_a_complete_connection_on_any_path() {
    // The process's statics are initialized first, so that their initialization does not synchronize the
    // threads.
    is_found_until_it_is_removed(&EpochTable::with_buckets(1));
    // `remove` ends with a fence, which synchronizes the threads in Miri. If the ordering of a link's store
    // or load is too weak, Miri notices this only in a round in which a lookup runs just before the fence. So
    // there are several rounds.
    let rounds = if cfg!(miri) { 16 } else { 2 };
    for round in 0..rounds {
        let table = EpochTable::with_buckets(1);
        // Relaxed, so that only the table synchronizes the threads.
        let may_look = AtomicBool::new(round % 2 == 0);
        thread::scope(|scope| {
            scope.spawn(|| {
                while !may_look.load(Relaxed) {
                    thread::yield_now();
                }
                while table.lookup(&id(1), |number| assert_eq!(*number, 1)).is_none() {
                    thread::yield_now();
                }
            });
            assert_eq!(table.insert(id(1), 1), Ok(()));
            if round % 2 == 1 {
                assert_eq!(table.insert(id(2), 2), Ok(()));
                may_look.store(true, Relaxed);
                // A lookup now follows the link of the removed entry.
                assert_eq!(table.remove(&id(2)), Some(2));
            }
        });
    }
}
