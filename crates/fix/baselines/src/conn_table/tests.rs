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
    assert_eq!(table.insert(id(7), 700), Err(700), "there is one already");
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
    // With few buckets they stand in lists.
    is_found_until_it_is_removed(&LockedTable::with_buckets(3));
    is_found_until_it_is_removed(&EpochTable::with_buckets(3));
}

/// A connection that tells when it is dropped.
struct Counted(Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_add(1, Relaxed);
    }
}

fn takes_its_connections_along(table: impl ConnTable<Counted>) {
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
fn a_table_that_goes_takes_its_connections_along() {
    takes_its_connections_along(LockedTable::with_buckets(1));
    takes_its_connections_along(EpochTable::with_buckets(1));
}

fn remove_waits_for_who_has_it(table: &impl ConnTable<()>) {
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
fn a_connection_is_not_removed_while_somebody_has_it() {
    remove_waits_for_who_has_it(&LockedTable::with_buckets(1));
    remove_waits_for_who_has_it(&EpochTable::with_buckets(1));
}

/// Whether the connection is closed, as the one who closed it knows.
struct Opened(Arc<AtomicBool>);

/// Two open and close connections, others look them up: what they get is open while they have it.
fn gives_no_freed_connection(table: &impl ConnTable<Opened>) {
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
            let removed = table.remove(&id).expect("nobody else removes it");
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
        // The others end also if one of these has panicked.
        let ended = writers.map(|writer| writer.join());
        over.store(true, Relaxed);
        ended.into_iter().for_each(Result::unwrap);
    });
    assert!(cfg!(miri) || found.load(Relaxed) > 0, "nothing was ever found");
    for number in 0..CONNECTIONS {
        assert!(table.lookup(&id(number), |_| ()).is_none());
    }
}

#[test]
fn a_lookup_never_gives_a_freed_connection() {
    // All in one list, which changes under those who walk it.
    gives_no_freed_connection(&LockedTable::with_buckets(1));
    gives_no_freed_connection(&EpochTable::with_buckets(1));
}

#[test]
fn a_connection_is_found_whole_whatever_led_to_it() {
    // What the process has once is made before, lest it bring the threads into an order.
    is_found_until_it_is_removed(&EpochTable::with_buckets(1));
    for is_first in [true, false] {
        let table = EpochTable::with_buckets(1);
        thread::scope(|scope| {
            scope.spawn(|| {
                while table.lookup(&id(1), |number| assert_eq!(*number, 1)).is_none() {
                    thread::yield_now();
                }
            });
            assert_eq!(table.insert(id(1), 1), Ok(()));
            if !is_first {
                // Who comes now is led there by the other's end.
                assert_eq!(table.insert(id(2), 2), Ok(()));
                assert_eq!(table.remove(&id(2)), Some(2));
            }
        });
    }
}
