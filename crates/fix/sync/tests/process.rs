//! What happens when threads are short-lived, when the process forks, and when a signal handler runs.

#![cfg(all(unix, not(miri)))]

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize};
use std::sync::{Arc, Barrier};
use std::thread;

use knee_sync::epoch::{self, Domain};
use knee_sync::hazard::{self, AtomicBox};
use knee_sync::refs::PerCpuRef;
use knee_sync::refs::refcache::{RefcacheArc, tick};
use knee_sync::rm::RmLock;
use knee_sync::{Rcu, System};

/// A value that increments a counter when it is created, and decrements the counter when it is dropped.
struct Live(Arc<AtomicUsize>);

impl Live {
    fn deferred(count: &Arc<AtomicUsize>) -> *mut Live {
        count.fetch_add(1, Relaxed);
        Box::into_raw(Box::new(Live(count.clone())))
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

#[test]
fn a_thousand_short_lived_threads_leave_nothing_behind() {
    let live = Arc::new(AtomicUsize::new(0));
    for _ in 0..100 {
        thread::scope(|scope| {
            for _ in 0..10 {
                scope.spawn(|| {
                    for _ in 0..50 {
                        let guard = epoch::pin();
                        // SAFETY: no other thread has the pointer.
                        unsafe { guard.retire(Live::deferred(&live)) };
                    }
                });
            }
        });
    }
    epoch::shared().barrier();
    assert_eq!(live.load(Relaxed), 0);
}

#[test]
fn short_lived_threads_leak_nothing_through_boxes_counts_or_locks() {
    const EACH: usize = 20;
    let live = Arc::new(AtomicUsize::new(0));
    let object = || {
        live.fetch_add(1, Relaxed);
        Live(live.clone())
    };
    let (in_box, counted) = (AtomicBox::new(object()), RefcacheArc::new(object()));
    let (users, sum) = (PerCpuRef::default(), RmLock::new(0));
    for _ in 0..20 {
        thread::scope(|scope| {
            for _ in 0..10 {
                scope.spawn(|| {
                    for _ in 0..EACH {
                        assert!(users.tryget_live());
                        let _reference = counted.clone();
                        in_box.store(Some(Box::new(object())));
                        assert!(in_box.load().is_some() && *sum.read() < 200 * EACH);
                        *sum.write() += 1;
                        assert!(!users.put(), "the count is live");
                    }
                });
            }
        });
    }
    assert_eq!(*sum.read(), 200 * EACH);
    assert!(users.kill(), "all references were put");
    drop((in_box, counted));
    (0..3).for_each(|_| tick());
    // A thread of another test may have adopted objects of these threads, and be about to free them.
    while live.load(Relaxed) > 0 {
        hazard::reclaim();
        thread::yield_now();
    }
}

#[test]
fn threads_whose_deferred_calls_enter_sections_leave_nothing_behind() {
    let stalled = || epoch::shared().stalls(std::time::Duration::ZERO).count();
    let threads = |number: usize| {
        for _ in 0..number {
            let defer = || epoch::pin().defer(|| drop(epoch::pin()));
            thread::spawn(defer).join().expect("the thread does not panic");
        }
    };
    threads(20);
    let before = records();
    threads(200);
    // A few dozen threads of other tests run at the same time, and may be in sections.
    assert!(records() < before + 100, "each thread left a record");
    assert!(stalled() < 100, "some sections never end");
}

/// The number of free records of the process's domain.
fn records() -> usize {
    let mut sections = Vec::new();
    while let Some(section) = epoch::shared().try_section() {
        sections.push(section);
    }
    sections.len()
}

#[test]
fn a_guard_in_a_destructor_of_an_exiting_thread_protects() {
    struct Late;
    impl Drop for Late {
        fn drop(&mut self) {
            assert!(!epoch::pin().domain().poll(epoch::shared().cookie()));
        }
    }
    thread_local! {
        static LATE: Late = const { Late };
    }
    // The order of destructors is unspecified: `LATE`'s destructor runs before or after the destructor of the
    // thread's record.
    for pin_first in [false, true] {
        thread::spawn(move || {
            if pin_first {
                drop(epoch::pin());
            }
            LATE.with(|_| ());
            drop(epoch::pin());
        })
        .join()
        .expect("the thread ends well");
    }
}

/// Whether `is_true` returns true in the child of a fork, within a minute.
///
/// # Safety
/// `is_true` needs no lock that another thread may hold at the fork, except the allocator's, which the C
/// library makes usable after a fork.
unsafe fn is_true_in_a_child(is_true: impl FnOnce() -> bool) -> bool {
    // SAFETY: the caller guarantees that the child can call `is_true`.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: alarm(2) takes a number.
        unsafe { libc::alarm(60) };
        let status = if is_true() { 7 } else { 1 };
        // SAFETY: _exit(2) takes a number, and ends the child at once.
        unsafe { libc::_exit(status) };
    }
    let mut status = 0;
    // SAFETY: the status is plain data.
    let waited = unsafe { libc::waitpid(child, &raw mut status, 0) };
    assert_eq!(waited, child);
    libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 7
}

#[test]
fn a_child_of_a_fork_frees_objects_that_missing_threads_protect() {
    let count = Arc::new(AtomicUsize::new(0));
    let source = AtomicPtr::new(Live::deferred(&count));
    let retire = || {
        let old = source.swap(std::ptr::null_mut(), std::sync::atomic::Ordering::AcqRel);
        // SAFETY: the object came from a box, and the exchange has unlinked it.
        unsafe { hazard::retire(old) };
        hazard::reclaim();
        count.load(Relaxed) == 0
    };
    let (is_protected, may_end) = (Barrier::new(2), Barrier::new(2));
    thread::scope(|scope| {
        scope.spawn(|| {
            // SAFETY: the writer that removes the object retires it.
            let guard = unsafe { hazard::protect(&source) };
            is_protected.wait();
            may_end.wait();
            assert_eq!(guard.expect("there is an object").0.load(Relaxed), 1);
        });
        is_protected.wait();
        // SAFETY: `retire` needs no lock that another thread may hold at the fork, except the allocator's.
        let is_freed_in_child = unsafe { is_true_in_a_child(retire) };
        let is_freed_here = retire();
        may_end.wait();
        assert_eq!((is_freed_in_child, is_freed_here), (true, false));
    });
    hazard::reclaim();
    assert_eq!(count.load(Relaxed), 0);
}

#[test]
fn a_child_of_a_fork_can_lock_for_writing_if_the_readers_are_missing() {
    let lock = RmLock::new(0);
    // The first reader takes the underlying lock, and opens the fast path for later readers.
    (0..100).for_each(|_| drop(lock.read()));
    let (reads, may_end) = (Barrier::new(2), Barrier::new(2));
    let can_write = || lock.try_write().is_some();
    thread::scope(|scope| {
        scope.spawn(|| {
            let guard = lock.read();
            reads.wait();
            may_end.wait();
            drop(guard);
        });
        reads.wait();
        // SAFETY: the lock is open, so the reader took only a slot, and no other thread has the underlying
        // lock.
        let can_write_in_child = unsafe { is_true_in_a_child(can_write) };
        let can_write_here = can_write();
        may_end.wait();
        assert_eq!((can_write_in_child, can_write_here), (true, false));
    });
}

#[test]
fn a_child_of_a_fork_works_without_the_threads_of_its_parent() {
    let value = Rcu::new(1);
    let ((here, is_here), (go, may_go)) =
        (std::sync::mpsc::channel(), std::sync::mpsc::channel::<()>());
    thread::scope(|scope| {
        scope.spawn(move || {
            let guard = epoch::pin();
            here.send(()).expect("the other end waits");
            may_go.recv().expect("the other end sends");
            drop(guard);
        });
        is_here.recv().expect("the thread sends");
        drop(epoch::pin());
        let in_child = || {
            // The other thread is in a section, but exists only in the parent. So `synchronize` must not wait
            // for that thread here.
            epoch::synchronize();
            value.store(2);
            epoch::reclaim();
            *value.load(&epoch::pin()) == 2
        };
        // SAFETY: `in_child` needs no lock that another thread may hold at the fork, except the allocator's.
        let goes_on_in_child = unsafe { is_true_in_a_child(in_child) };
        // In the parent the other thread is still in its section.
        let is_over_here = epoch::shared().poll(epoch::shared().cookie());
        go.send(()).expect("the thread waits");
        assert_eq!((goes_on_in_child, is_over_here), (true, false));
    });
}

#[test]
fn a_barrier_in_a_child_of_a_fork_does_not_wait_for_calls_and_barriers_of_its_parent() {
    let ((here, is_here), (go, may_go)) =
        (std::sync::mpsc::channel(), std::sync::mpsc::channel::<()>());
    thread::scope(|scope| {
        let calls = scope.spawn(move || {
            epoch::pin().defer(move || {
                here.send(()).expect("the other end waits");
                may_go.recv().expect("the other end sends");
            });
            // A thread of another test may make the call instead.
            epoch::reclaim();
        });
        is_here.recv().expect("the call is made");
        // The barrier of this new thread waits for the deferred call above.
        let waits = scope.spawn(epoch::barrier);
        // This sleep is usually long enough for the other thread to enter its barrier. If the sleep is too
        // short, the test still passes, but checks less.
        thread::sleep(std::time::Duration::from_millis(20));
        let in_child = || {
            static CALLED: AtomicUsize = AtomicUsize::new(0);
            epoch::pin().defer(|| _ = CALLED.fetch_add(1, Relaxed));
            epoch::barrier();
            CALLED.load(Relaxed) == 1
        };
        // SAFETY: `in_child` needs no lock that another thread may hold at the fork, except the allocator's.
        let goes_on_in_child = unsafe { is_true_in_a_child(in_child) };
        go.send(()).expect("the call waits");
        calls.join().expect("the thread ends well");
        waits.join().expect("the thread ends well");
        assert!(goes_on_in_child);
    });
}

/// Must be called by a callback that a barrier runs. Forks, and calls `barrier` in a new thread of the child.
/// Returns whether the new thread waits for the barrier that is already running.
fn waits_in_a_child(barrier: fn()) -> bool {
    let in_child = || {
        let other = thread::spawn(barrier);
        // If the new call does not wait, it returns long before this sleep ends.
        thread::sleep(std::time::Duration::from_millis(200));
        !other.is_finished()
    };
    // SAFETY: `in_child` needs no lock that another thread may hold at the fork, except the allocator's.
    unsafe { is_true_in_a_child(in_child) }
}

#[test]
fn a_barrier_that_forks_still_excludes_other_barriers_in_the_child() {
    static WAITS: [AtomicUsize; 2] = [const { AtomicUsize::new(0) }; 2];

    struct Forks;
    impl Drop for Forks {
        fn drop(&mut self) {
            WAITS[1].store(usize::from(waits_in_a_child(hazard::barrier)), Relaxed);
        }
    }

    epoch::pin().defer(|| {
        WAITS[0].store(usize::from(waits_in_a_child(epoch::barrier)), Relaxed);
    });
    epoch::barrier();
    let object = Box::into_raw(Box::new((Forks, 0)));
    // SAFETY: no other thread has the pointer.
    unsafe { hazard::retire(object) };
    hazard::barrier();
    assert_eq!(WAITS.each_ref().map(|waits| waits.load(Relaxed)), [1, 1]);
}

#[test]
fn a_signal_handler_may_enter_sections_wherever_it_interrupts() {
    static SHARED: AtomicPtr<u64> = AtomicPtr::new(std::ptr::null_mut());
    static HANDLED: AtomicU64 = AtomicU64::new(0);
    extern "C" fn handle(_: libc::c_int) {
        let guard = epoch::pin();
        // SAFETY: an object that was found in a section is not freed until the section ends.
        let found = unsafe { *SHARED.load(std::sync::atomic::Ordering::Acquire) };
        assert_eq!(found % 3, 0);
        drop(guard);
        HANDLED.fetch_add(1, Relaxed);
    }
    SHARED.store(Box::into_raw(Box::new(3)), Relaxed);
    // The thread must have entered a section before its handler may enter one.
    drop(epoch::pin());
    // SAFETY: the handler only calls functions that are documented as signal-safe.
    unsafe { libc::signal(libc::SIGUSR1, handle as *const () as libc::sighandler_t) };
    // SAFETY: pthread_self(3) takes no arguments.
    let this = unsafe { libc::pthread_self() };
    let this = this as usize;
    thread::scope(|scope| {
        let sender = scope.spawn(move || {
            for _ in 0..2000 {
                // SAFETY: the receiving thread exists, because it waits for this thread.
                unsafe { libc::pthread_kill(this as libc::pthread_t, libc::SIGUSR1) };
                thread::yield_now();
            }
        });
        let mut round = 0;
        while !sender.is_finished() {
            round += 1;
            let guard = epoch::pin();
            let inner = epoch::pin();
            let old = SHARED
                .swap(Box::into_raw(Box::new(3 * round)), std::sync::atomic::Ordering::AcqRel);
            drop(guard);
            // SAFETY: the exchange has unlinked the object.
            unsafe { inner.retire(old) };
        }
    });
    assert!(HANDLED.load(Relaxed) > 0);
    // SAFETY: SIG_DFL is the handler with which the process started.
    unsafe { libc::signal(libc::SIGUSR1, libc::SIG_DFL) };
}

#[test]
fn a_domain_does_not_wait_for_guards_of_another_domain() {
    let domain = Domain::new(System::detect());
    let _guard = epoch::pin();
    domain.synchronize();
}
