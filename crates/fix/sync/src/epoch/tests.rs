//! The guarantees of epochs, with real threads.

use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, fence};
use std::sync::mpsc::channel;
use std::sync::{Arc, LazyLock};
use std::thread;
use std::time::{Duration, Instant};

use super::*;
use crate::{Node, Platform, System};

/// A value that is counted while it is alive.
#[derive(Debug)]
struct Live(Arc<AtomicUsize>);

impl Live {
    fn new(count: &Arc<AtomicUsize>) -> *mut Live {
        count.fetch_add(1, Relaxed);
        Box::into_raw(Box::new(Live(count.clone())))
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

fn both(test: impl Fn(Domain<System>)) {
    test(Domain::new(System::detect()));
    test(Domain::new(System::symmetric()));
}

const MANY: usize = if cfg!(miri) { 300 } else { 20_000 };

#[test]
fn a_guard_blocks_all_frees_and_a_dropped_domain_frees_the_rest() {
    both(|domain| {
        let live = Arc::new(AtomicUsize::new(0));
        let (reader, writer) = (domain.register(), domain.register());
        let guard = reader.pin();
        for _ in 0..MANY {
            // SAFETY: no other thread has the pointer.
            unsafe { writer.retire(Live::new(&live)) };
        }
        writer.reclaim();
        assert_eq!(live.load(Relaxed), MANY);
        drop(guard);
        writer.reclaim();
        assert_eq!(live.load(Relaxed), 0);
        // SAFETY: no other thread has the pointer.
        unsafe { writer.retire(Live::new(&live)) };
        assert_eq!(live.load(Relaxed), 1);
        drop((reader, writer));
        drop(domain);
        assert_eq!(live.load(Relaxed), 0);
    });
}

#[test]
fn a_loaded_value_stays_until_its_guard_is_dropped() {
    both(|domain| {
        let live = Arc::new(AtomicUsize::new(0));
        // SAFETY: `Live::new` returns a pointer from a box, and nothing else uses that pointer.
        let boxed = || Some(unsafe { Box::from_raw(Live::new(&live)) });
        let shared = AtomicPtr::default();
        let writer = domain.register();
        // SAFETY: only `replace` changes `shared`.
        let replace = |new| unsafe { writer.pin().replace(&shared, new).is_some() };
        assert!(!replace(boxed()));
        {
            let (reader, section) = (domain.register(), domain.section());
            let guard = reader.pin();
            let online = QsbrHandle::new(domain.register());
            // SAFETY: only `replace` changes `shared`.
            let found =
                unsafe { [guard.load(&shared), section.load(&shared), online.load(&shared)] };
            assert!(replace(None));
            writer.reclaim();
            assert!(
                found.iter().all(|value| value.is_some_and(|value| Arc::ptr_eq(&value.0, &live)))
            );
            assert_eq!(live.load(Relaxed), 1);
            // SAFETY: only `replace` changes `shared`.
            assert!(unsafe { guard.load(&shared) }.is_none());
        }
        writer.reclaim();
        assert_eq!(live.load(Relaxed), 0);
    });
}

#[test]
fn a_domain_without_an_allocator_has_the_records_that_were_added() {
    static NODES: [Node<Record>; 2] = [const { Node::new(Record::new()) }; 2];
    let domain = Domain::new(System::detect());
    assert!(domain.try_register().is_none() && domain.try_section().is_none());
    NODES.iter().for_each(|node| domain.add_node(node));
    let (handle, section) = (domain.try_register().unwrap(), domain.try_section().unwrap());
    assert!(domain.try_register().is_none());
    drop(section);
    assert!(domain.try_register().is_some());
    drop(handle);
    assert!(panic::catch_unwind(|| domain.add_node(&NODES[0])).is_err(), "a node is added once");
}

#[test]
fn guards_nest_and_may_be_dropped_in_any_order() {
    both(|domain| {
        let handle = domain.register();
        let cookie = || domain.cookie();
        let (outer, before) = (handle.pin(), cookie());
        let inner = handle.pin();
        drop(outer);
        assert!(!domain.poll(before));
        drop(inner);
        assert!(domain.poll(before));
    });
}

#[test]
fn a_refreshed_guard_does_not_block_earlier_cookies() {
    both(|domain| {
        let handle = domain.register();
        let mut guard = handle.pin();
        let before = domain.cookie();
        assert!(!domain.poll(before));
        guard.refresh();
        assert!(domain.poll(before));
        assert!(!domain.poll(domain.cookie()));
    });
}

#[test]
fn a_section_may_be_sent_to_another_thread() {
    both(|domain| {
        let section = domain.section();
        let before = domain.cookie();
        thread::scope(|scope| {
            scope.spawn(|| assert!(!domain.poll(before)));
        });
        thread::scope(|scope| {
            scope.spawn(move || drop(section));
        });
        assert!(domain.poll(before));
    });
}

#[test]
fn a_grace_period_waits_until_an_online_thread_is_quiescent_or_offline() {
    both(|domain| {
        let mut online = QsbrHandle::new(domain.register());
        let before = domain.cookie();
        assert!(!domain.poll(before));
        online.quiescent();
        assert!(domain.poll(before));
        online.offline(|| domain.synchronize());
        let before = domain.cookie();
        assert!(!domain.poll(before));
        drop(online);
        assert!(domain.poll(before));
    });
}

#[test]
fn a_grace_period_waits_for_earlier_sections_and_not_for_later_ones() {
    both(|domain| {
        let ((here, is_here), (go, may_go)) = (channel(), channel::<()>());
        let left = AtomicBool::new(false);
        thread::scope(|scope| {
            let (domain, left) = (&domain, &left);
            scope.spawn(move || {
                let handle = domain.register();
                let guard = handle.pin();
                here.send(()).unwrap();
                may_go.recv().unwrap();
                left.store(true, SeqCst);
                drop(guard);
            });
            is_here.recv().unwrap();
            let waiter = scope.spawn(|| {
                domain.synchronize();
                assert!(left.load(SeqCst));
            });
            let cookie = domain.cookie();
            let late = domain.section();
            assert!(!domain.poll(cookie));
            go.send(()).unwrap();
            domain.wait(cookie);
            assert!(left.load(SeqCst));
            // If the waiter calls `synchronize` only after the late section has begun, the waiter also waits
            // for that section.
            drop(late);
            waiter.join().unwrap();
        });
    });
}

#[test]
#[should_panic(expected = "would wait for the caller's own section")]
fn synchronize_in_a_section_panics() {
    let domain = Domain::new(System::detect());
    let handle = domain.register();
    let _guard = handle.pin();
    handle.synchronize();
}

#[test]
#[cfg_attr(miri, ignore = "the number of waiting objects depends on the cost of a fence")]
fn after_a_stall_all_garbage_is_freed_within_ten_thousand_operations() {
    let (garbage, operations) = (1_000_000, 10_000);
    both(|domain| {
        let live = Arc::new(AtomicUsize::new(0));
        let writer = domain.register();
        let stalled = domain.section();
        for _ in 0..garbage {
            // SAFETY: no other thread has the pointer.
            unsafe { writer.retire(Live::new(&live)) };
        }
        assert_eq!(live.load(Relaxed), garbage);
        drop(stalled);
        for _ in 0..operations {
            // SAFETY: no other thread has the pointer.
            unsafe { writer.retire(Live::new(&live)) };
        }
        assert!(live.load(Relaxed) < operations + 1, "{}", live.load(Relaxed));
    });
}

#[test]
fn a_barrier_waits_for_the_calls_that_all_threads_have_deferred() {
    both(|domain| {
        let live = Arc::new(AtomicUsize::new(0));
        let ((deferred, is_deferred), (go, may_go)) = (channel(), channel::<()>());
        thread::scope(|scope| {
            let (domain, live) = (&domain, &live);
            scope.spawn(move || {
                let handle = domain.register();
                for _ in 0..10 {
                    // SAFETY: no other thread has the pointer.
                    unsafe { handle.retire(Live::new(live)) };
                }
                deferred.send(()).unwrap();
                may_go.recv().unwrap();
            });
            is_deferred.recv().unwrap();
            assert_eq!(live.load(Relaxed), 10);
            domain.barrier();
            assert_eq!(live.load(Relaxed), 0);
            go.send(()).unwrap();
        });
    });
}

/// A platform that counts heavy fences.
#[derive(Default)]
struct Counting(AtomicUsize);

// SAFETY: the platform is symmetric, and its heavy fence is a full fence.
unsafe impl Platform for Counting {
    fn is_symmetric(&self) -> bool {
        true
    }

    fn heavy(&self) {
        self.0.fetch_add(1, Relaxed);
        fence(SeqCst);
    }

    fn relax(&self, _: u32) {
        thread::yield_now();
    }

    fn now(&self) -> u64 {
        0
    }

    fn thread(&self) -> u64 {
        0
    }
}

#[test]
fn a_barrier_executes_two_heavy_fences_whatever_the_number_of_threads() {
    for threads in [40, 2, 1] {
        let domain = Domain::new(Counting::default());
        let live = Arc::new(AtomicUsize::new(0));
        let handles: Vec<_> = (0..threads).map(|_| domain.register()).collect();
        for handle in &handles {
            // SAFETY: no other thread has the pointer.
            unsafe { handle.retire(Live::new(&live)) };
        }
        let before = domain.platform().0.load(Relaxed);
        domain.barrier();
        assert_eq!(live.load(Relaxed), 0);
        assert_eq!(domain.platform().0.load(Relaxed) - before, 2, "with {threads} threads");
    }
}

#[test]
fn a_barrier_waits_for_calls_that_began_before_it() {
    let ((here, is_here), (go, may_go)) = (channel(), channel::<()>());
    let is_over = Arc::new(AtomicBool::new(false));
    let call = {
        let is_over = Arc::clone(&is_over);
        move || {
            here.send(()).unwrap();
            may_go.recv().unwrap();
            (0..5).for_each(|_| pin().defer(|| ()));
            here.send(()).unwrap();
            may_go.recv().unwrap();
            is_over.store(true, SeqCst);
        }
    };
    let waits = || {
        barrier();
        assert!(is_over.load(SeqCst), "the call had begun before the barrier");
    };
    thread::scope(|scope| {
        let caller = scope.spawn(|| {
            pin().defer(call);
            // A barrier of another test may make the call instead.
            reclaim();
        });
        is_here.recv().unwrap();
        // During the first sleep, the first barrier usually begins to wait. Then `call` defers more calls,
        // which the second barrier finds. If a sleep is too short, the test checks less.
        let first = scope.spawn(waits);
        thread::sleep(Duration::from_millis(20));
        go.send(()).unwrap();
        is_here.recv().unwrap();
        let second = scope.spawn(waits);
        thread::sleep(Duration::from_millis(20));
        go.send(()).unwrap();
        [caller, first, second].into_iter().for_each(|thread| thread.join().unwrap());
    });
}

/// The CPU time that the calling thread has used.
#[cfg(target_os = "linux")]
fn cpu_time() -> Duration {
    // SAFETY: the fields of `rusage` are integers, so zeroes are valid.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the `rusage` is alive during the call.
    assert_eq!(unsafe { libc::getrusage(libc::RUSAGE_THREAD, &mut usage) }, 0);
    let time = |of: libc::timeval| {
        Duration::from_secs(of.tv_sec as u64) + Duration::from_micros(of.tv_usec as u64)
    };
    time(usage.ru_utime) + time(usage.ru_stime)
}

/// The CPU time and the elapsed time of a `wait` for a section that lasts 200 ms.
#[cfg(target_os = "linux")]
fn cost_of_a_wait(domain: &Domain<System>, wait: fn(&Domain<System>)) -> (Duration, Duration) {
    let section = domain.section();
    thread::scope(|scope| {
        let waiter = scope.spawn(|| {
            let (cpu, wall) = (cpu_time(), Instant::now());
            wait(domain);
            (cpu_time() - cpu, wall.elapsed())
        });
        thread::sleep(Duration::from_millis(200));
        drop(section);
        waiter.join().unwrap()
    })
}

#[test]
#[cfg(target_os = "linux")]
#[cfg_attr(miri, ignore = "Miri has no CPU time")]
fn a_thread_that_waits_for_a_long_section_sleeps() {
    /// One attempt may use much CPU time although the thread sleeps: a heavy fence waits for virtual CPUs
    /// that the host is not running, and uses CPU time while it waits.
    const ATTEMPTS: usize = 5;
    let waits: [fn(&Domain<System>); 2] = [Domain::synchronize, Domain::barrier];
    for wait in waits {
        both(|domain| {
            let costs: Vec<_> = (0..ATTEMPTS)
                .map(|_| cost_of_a_wait(&domain, wait))
                // A sleeping thread uses about 1 % of a CPU. A yielding thread uses all idle CPU time.
                .take_while(|(cpu, wall)| *cpu > *wall / 8)
                .collect();
            assert!(costs.len() < ATTEMPTS, "{costs:?}");
        });
    }
}

#[test]
fn objects_of_an_exited_thread_are_freed_by_other_threads() {
    both(|domain| {
        let live = Arc::new(AtomicUsize::new(0));
        let section = domain.section();
        thread::scope(|scope| {
            scope.spawn(|| {
                let handle = domain.register();
                for _ in 0..1000 {
                    // SAFETY: no other thread has the pointer.
                    unsafe { handle.retire(Live::new(&live)) };
                }
            });
        });
        assert_eq!(live.load(Relaxed), 1000);
        drop(section);
        domain.register().reclaim();
        assert_eq!(live.load(Relaxed), 0);
    });
}

#[test]
fn a_deferred_call_may_defer_more_calls() {
    fn chain(length: usize, live: Arc<AtomicUsize>) {
        if length > 0 {
            live.fetch_add(1, Relaxed);
            pin().defer(move || {
                live.fetch_sub(1, Relaxed);
                chain(length - 1, live);
            });
        }
    }
    let live = Arc::new(AtomicUsize::new(0));
    chain(100, live.clone());
    (0..100).for_each(|_| shared().barrier());
    assert_eq!(live.load(Relaxed), 0);
}

#[test]
fn a_stall_is_reported_with_its_thread() {
    let domain = Domain::new(System::detect());
    assert_eq!(domain.stalls(Duration::ZERO).count(), 0);
    let section = domain.section();
    domain.poll(domain.cookie());
    thread::sleep(Duration::from_millis(2));
    let stalls: Vec<Stall> = domain.stalls(Duration::from_millis(1)).collect();
    let [Stall { thread, .. }] = stalls[..] else { panic!("{stalls:?}") };
    assert_eq!(thread, crate::Platform::thread(domain.platform()));
    drop(section);
    assert_eq!(domain.stalls(Duration::ZERO).count(), 0);
}

#[test]
fn a_stall_is_reported_without_writers() {
    let domain = Domain::new(System::detect());
    let handle = domain.register();
    let guard = handle.pin();
    let begun = Instant::now();
    assert_eq!(domain.stalls(Duration::ZERO).count(), 1);
    let long = Duration::from_millis(100);
    thread::sleep(long);
    let inner = handle.pin();
    assert_eq!(domain.stalls(long).count(), 1, "nested guards are one section");
    drop((inner, guard));
    let _guard = handle.pin();
    // The second section began at least `long` after `begun`. So the scan finds that this section is younger
    // than `begun.elapsed()`, unless the thread is preempted for `long` between `elapsed` and the scan.
    assert_eq!(domain.stalls(begun.elapsed()).count(), 0, "the second section is another stall");
}

#[test]
fn an_entry_within_an_object_is_called_once() {
    static CALLED: AtomicUsize = AtomicUsize::new(0);
    #[repr(C)]
    struct Object {
        entry: Entry,
        value: usize,
    }
    unsafe fn call(entry: std::ptr::NonNull<Entry>) {
        // SAFETY: the entry is the first field of an object from `Box::leak`.
        let object = unsafe { Box::from_raw(entry.cast::<Object>().as_ptr()) };
        CALLED.fetch_add(object.value, Relaxed);
    }
    let domain = Domain::new(System::detect());
    let handle = domain.register();
    for _ in 0..100 {
        let object = Box::leak(Box::new(Object { entry: Entry::new(), value: 1 }));
        // SAFETY: no other thread has the object.
        unsafe { handle.pin().retire_entry(std::ptr::NonNull::from(object).cast(), call) };
    }
    drop(handle);
    assert_eq!(CALLED.load(Relaxed), 100);
}

#[test]
fn a_found_object_stays_unchanged_while_writers_free_objects() {
    const READERS: usize = 2;
    let rounds = if cfg!(miri) { 100 } else { 100_000 };
    both(|domain| {
        let shared = AtomicPtr::new(Box::into_raw(Box::new([7_u64; 4])));
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            let reader = || {
                let handle = domain.register();
                while !stop.load(Relaxed) {
                    let guard = handle.pin();
                    // SAFETY: an object that was found in a section stays until the section ends.
                    let found = unsafe { *shared.load(SeqCst) };
                    assert!(found.iter().all(|word| *word == found[0]), "{found:?}");
                    drop(guard);
                }
            };
            (0..READERS).for_each(|_| drop(scope.spawn(reader)));
            let handle = domain.register();
            for round in 0..rounds {
                let old = shared.swap(Box::into_raw(Box::new([round; 4])), SeqCst);
                // SAFETY: the exchange has unlinked the object.
                unsafe { handle.retire(old) };
            }
            stop.store(true, Relaxed);
        });
        // SAFETY: no other thread has the pointer.
        drop(unsafe { Box::from_raw(shared.into_inner()) });
    });
}

#[test]
fn a_call_that_panics_does_not_keep_other_calls_from_running() {
    let domain = Domain::new(System::detect());
    let handle = domain.register();
    let called = Arc::new(AtomicUsize::new(0));
    let defer = |times: usize| {
        for _ in 0..times {
            let called = Arc::clone(&called);
            handle.pin().defer(move || {
                called.fetch_add(1, Relaxed);
            });
        }
    };
    defer(200);
    handle.pin().defer(|| panic!("the test's panic"));
    defer(200);
    let flushed = panic::catch_unwind(AssertUnwindSafe(|| handle.reclaim()));
    assert!(flushed.is_err(), "the thread that frees panics");
    assert_eq!(called.load(Relaxed), 400);
    defer(300);
    domain.barrier();
    assert_eq!(called.load(Relaxed), 700);
}

#[test]
fn a_barrier_panics_in_a_call_that_it_would_wait_for() {
    static DOMAIN: LazyLock<Domain<System>> = LazyLock::new(|| Domain::new(System::detect()));
    let handle = DOMAIN.register();
    let panics = |call: &dyn Fn()| panic::catch_unwind(AssertUnwindSafe(call)).is_err();
    let defer = || handle.pin().defer(|| DOMAIN.barrier());
    defer();
    assert!(panics(&|| handle.reclaim()));
    defer();
    assert!(panics(&|| DOMAIN.barrier()));
    DOMAIN.barrier();
}
