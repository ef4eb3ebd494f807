//! Forks of a process whose threads are in sections or make deferred calls. These tests need a process of
//! their own. The tests in `process.rs` use the same domain, so their threads could make the deferred calls
//! of these tests.

#![cfg(all(unix, not(miri)))]

use std::sync::atomic::{AtomicI32, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use knee_sync::System;
use knee_sync::epoch::{self, Section};

/// Lets only one test run at a time: all tests use the same domain, so concurrent tests would count each
/// other's records.
static ALONE: Mutex<()> = Mutex::new(());

/// fork(2). The child ends after ten seconds if nothing else ends it.
fn fork() -> libc::pid_t {
    // SAFETY: of the locks that other threads may hold at the fork, the child needs only the allocator's, and
    // the C library makes that lock usable in the child.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: alarm(2) takes a number.
        unsafe { libc::alarm(10) };
    }
    child
}

/// Ends the child.
fn exit(succeeded: bool) -> ! {
    // SAFETY: _exit(2) takes a number.
    unsafe { libc::_exit(if succeeded { 7 } else { 1 }) }
}

/// Waits for the child and returns whether it succeeded.
fn succeeds(child: libc::pid_t) -> bool {
    let mut status = 0;
    // SAFETY: the status is plain data.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 7
}

/// Begins a section in each free record.
fn sections() -> Vec<Section<'static, System>> {
    std::iter::from_fn(|| epoch::shared().try_section()).collect()
}

/// The number of records that are in a section.
fn busy_records() -> usize {
    epoch::shared().stalls(Duration::ZERO).count()
}

#[test]
fn a_record_whose_call_forks_has_one_owner_in_the_child() {
    static CHILD: AtomicI32 = AtomicI32::new(-1);
    static SECTIONS: Mutex<Vec<Section<'static, System>>> = Mutex::new(Vec::new());
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let section = epoch::section();
    // The other thread exits before its deferred call is ready, so this thread adopts the record of the other
    // thread and makes the deferred call.
    let defers = || {
        epoch::pin().defer(|| {
            CHILD.store(fork(), Relaxed);
            if CHILD.load(Relaxed) == 0 {
                SECTIONS.lock().expect("no thread panics").extend(sections());
            }
        });
    };
    thread::spawn(defers).join().expect("the thread returns");
    drop(section);
    epoch::reclaim();
    let child = CHILD.load(Relaxed);
    assert!(child >= 0, "this thread has made the call");
    if child == 0 {
        let mut held = SECTIONS.lock().expect("no thread panics");
        held.extend(sections());
        exit(busy_records() == held.len());
    }
    assert!(succeeds(child));
}

#[test]
fn a_handle_registered_by_the_user_keeps_its_record_in_the_child() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let handle = epoch::shared().register();
    let guard = handle.pin();
    let child = fork();
    if child == 0 {
        let mut held = sections();
        let is_guarded = busy_records() == held.len() + 1;
        drop(guard);
        drop(handle);
        held.extend(sections());
        exit(is_guarded && busy_records() == held.len());
    }
    assert!(succeeds(child));
}
