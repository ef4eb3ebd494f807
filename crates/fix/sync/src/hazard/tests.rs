use std::cell::RefCell;
use std::panic::{self, AssertUnwindSafe};
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize};
use std::thread;

use super::guard::SLOTS;
use super::{AtomicBox, Domain, Guard, Handle, reclaim};
use crate::system::System;

const ROUNDS: usize = if cfg!(miri) { 40 } else { 20_000 };

/// An object that records its drop.
struct Counted {
    live: Arc<AtomicUsize>,
    gone: AtomicBool,
    value: usize,
}

impl Counted {
    fn boxed(live: &Arc<AtomicUsize>, value: usize) -> *mut Counted {
        live.fetch_add(1, SeqCst);
        Box::into_raw(Box::new(Counted {
            live: Arc::clone(live),
            gone: AtomicBool::new(false),
            value,
        }))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        assert!(!self.gone.swap(true, SeqCst), "freed twice");
        self.live.fetch_sub(1, SeqCst);
    }
}

fn protect<'d>(handle: &Handle<'d>, source: &AtomicPtr<Counted>) -> Option<Guard<'d, Counted>> {
    // SAFETY: in these tests, a source is null or points to a live object, and only `replace` removes
    // objects.
    unsafe { handle.protect(source) }
}

fn replace(handle: &Handle, source: &AtomicPtr<Counted>, new: *mut Counted) {
    let old = source.swap(new, AcqRel);
    if !old.is_null() {
        // SAFETY: the exchange removed `old`, so it is retired once.
        unsafe { handle.retire(old) };
    }
}

#[test]
fn a_swap_returns_the_old_value_and_frees_it_after_the_guard() {
    let live = Arc::default();
    let boxed = || {
        // SAFETY: `Counted::boxed` returns a pointer from a box, and nothing else uses it.
        unsafe { Box::from_raw(Counted::boxed(&live, 7)) }
    };
    let value = AtomicBox::<Counted>::from(Some(boxed()));
    let old = value.swap(None).unwrap();
    reclaim();
    assert_eq!((live.load(SeqCst), old.value), (1, 7));
    assert!(value.load().is_none() && value.swap(Some(boxed())).is_none());
    drop((old, value));
    reclaim();
    assert_eq!(live.load(SeqCst), 0);
    assert_eq!(*AtomicBox::from(7).load().unwrap(), 7);
    assert!(AtomicBox::<u32>::default().load().is_none());
}

#[test]
fn an_object_is_freed_after_its_guard() {
    let live = Arc::default();
    let domain = Domain::default();
    let source = AtomicPtr::new(Counted::boxed(&live, 7));
    let (reader, writer) = (domain.register(), domain.register());
    let guard = protect(&reader, &source).unwrap();
    replace(&writer, &source, ptr::null_mut());
    writer.reclaim();
    assert_eq!((live.load(SeqCst), guard.value), (1, 7));
    assert!(protect(&reader, &source).is_none(), "the source is null");
    drop(guard);
    writer.reclaim();
    assert_eq!(live.load(SeqCst), 0);
}

#[test]
fn a_thread_may_have_more_guards_than_slots_and_drop_them_in_any_order() {
    let live = Arc::default();
    let domain = Domain::default();
    let count = 3 * SLOTS + 1;
    let sources: Vec<_> =
        (0..count).map(|value| AtomicPtr::new(Counted::boxed(&live, value))).collect();
    let (reader, writer) = (domain.register(), domain.register());
    for step in [1, 2, 5] {
        let mut guards: Vec<_> = sources.iter().map(|source| protect(&reader, source)).collect();
        for start in 0..step {
            guards.iter_mut().skip(start).step_by(step).for_each(|guard| *guard = None);
        }
    }
    let guards: Vec<_> = sources.iter().map(|source| protect(&reader, source).unwrap()).collect();
    sources.iter().for_each(|source| replace(&writer, source, ptr::null_mut()));
    writer.reclaim();
    assert_eq!(live.load(SeqCst), count);
    assert!(guards.iter().enumerate().all(|(index, guard)| guard.value == index));
    drop(guards);
    writer.reclaim();
    assert_eq!(live.load(SeqCst), 0);
}

#[test]
fn garbage_is_bounded_while_a_reader_sleeps_with_its_guard() {
    let live = Arc::default();
    let batch = 4 * SLOTS;
    let domain = Domain::with_batch(System::detect(), batch);
    let source = AtomicPtr::new(Counted::boxed(&live, 0));
    let (reader, writer) = (domain.register(), domain.register());
    let guard = protect(&reader, &source).unwrap();
    for value in 1..ROUNDS.min(2_000) {
        replace(&writer, &source, Counted::boxed(&live, value));
        assert!(writer.garbage() < batch);
        // Only the garbage and the object in the source are alive.
        assert!(live.load(SeqCst) <= batch, "{}", live.load(SeqCst));
    }
    assert_eq!(guard.value, 0);
    drop(guard);
    replace(&writer, &source, ptr::null_mut());
    drop((reader, writer));
    assert_eq!(live.load(SeqCst), 0);
}

#[test]
fn threads_read_only_live_objects_and_all_objects_are_freed_at_the_end() {
    const THREADS: usize = 4;
    const SOURCES: usize = 3;
    let live = Arc::default();
    // The batch is twice the number of slots. Each of the threads has one record, and the main thread has no
    // record yet.
    let batch = 2 * SLOTS * THREADS;
    let domain = Domain::with_batch(System::detect(), batch);
    let sources: [_; SOURCES] =
        std::array::from_fn(|value| AtomicPtr::new(Counted::boxed(&live, value)));
    let most = AtomicUsize::new(0);
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let (live, domain, sources, most) = (&live, &domain, &sources, &most);
            scope.spawn(move || {
                let handle = domain.register();
                let mut held: [Option<Guard<Counted>>; 2] = [None, None];
                for round in 0..ROUNDS {
                    let place = (thread + round) % SOURCES;
                    let guard = protect(&handle, &sources[place]).unwrap();
                    assert!(!guard.gone.load(Relaxed));
                    assert_eq!(guard.value % SOURCES, place);
                    held[round % 2] = Some(guard);
                    if round % 3 == thread % 3 {
                        let new = Counted::boxed(live, place + SOURCES * round);
                        replace(&handle, &sources[place], new);
                    }
                    most.fetch_max(live.load(SeqCst), SeqCst);
                    let other = held[(round + 1) % 2].as_ref();
                    assert!(other.is_none_or(|guard| !guard.gone.load(Relaxed)));
                }
            });
        }
    });
    // These objects may be alive: the garbage, the objects in the sources, and objects that a thread has
    // allocated and not yet exchanged. While a thread waits for its heavy fence, it still has a whole batch
    // of garbage.
    let bound = THREADS * batch + SOURCES + THREADS;
    assert!(most.load(SeqCst) <= bound, "{} of {bound}", most.load(SeqCst));
    let last = domain.register();
    sources.iter().for_each(|source| replace(&last, source, ptr::null_mut()));
    drop(last);
    drop(domain);
    assert_eq!(live.load(SeqCst), 0);
}

#[test]
fn objects_that_a_thread_leaves_behind_are_freed_by_another_thread() {
    let live = Arc::default();
    let domain = Domain::default();
    let source = AtomicPtr::new(Counted::boxed(&live, 0));
    let reader = domain.register();
    let guard = protect(&reader, &source).unwrap();
    thread::scope(|scope| {
        scope.spawn(|| replace(&domain.register(), &source, ptr::null_mut()));
    });
    assert_eq!(live.load(SeqCst), 1);
    reader.reclaim();
    assert_eq!((live.load(SeqCst), reader.garbage()), (1, 1), "the object is still protected");
    drop(guard);
    drop(reader);
    assert_eq!(live.load(SeqCst), 0);
}

#[test]
fn a_domain_frees_unadopted_orphans() {
    let live = Arc::default();
    let domain = Domain::default();
    let source = AtomicPtr::new(Counted::boxed(&live, 0));
    let handle = domain.register();
    std::mem::forget(protect(&handle, &source));
    replace(&handle, &source, ptr::null_mut());
    drop(handle);
    assert_eq!(live.load(SeqCst), 1, "a leaked guard protects forever");
    drop(domain);
    assert_eq!(live.load(SeqCst), 0);
}

#[test]
fn a_barrier_frees_the_objects_of_all_threads_except_protected_objects() {
    let live = Arc::default();
    let domain = Domain::default();
    let sources = [7, 8].map(|value| AtomicPtr::new(Counted::boxed(&live, value)));
    let (reader, writer) = (domain.register(), domain.register());
    let guard = protect(&reader, &sources[0]).unwrap();
    sources.iter().for_each(|source| replace(&writer, source, ptr::null_mut()));
    assert_eq!(live.load(SeqCst), 2);
    domain.barrier();
    assert_eq!((live.load(SeqCst), guard.value, writer.garbage()), (1, 7, 0));
    drop(guard);
    domain.barrier();
    assert_eq!(live.load(SeqCst), 0);
}

#[test]
fn objects_of_a_thread_that_leaked_a_guard_are_freed_by_another_thread() {
    let live = Arc::default();
    let domain = Domain::default();
    let sources = [7, 8].map(|value| AtomicPtr::new(Counted::boxed(&live, value)));
    let reader = domain.register();
    let guard = protect(&reader, &sources[1]);
    let leaks = domain.register();
    std::mem::forget(protect(&leaks, &sources[0]));
    replace(&leaks, &sources[1], ptr::null_mut());
    drop(leaks);
    drop(guard);
    assert_eq!(live.load(SeqCst), 2);
    reader.reclaim();
    assert_eq!(live.load(SeqCst), 1);
    replace(&reader, &sources[0], ptr::null_mut());
    drop(reader);
    drop(domain);
    assert_eq!(live.load(SeqCst), 0);
}

#[test]
fn a_destructor_may_retire_more_objects() {
    struct Link<'d> {
        next: *mut Link<'d>,
        handle: *const Handle<'d>,
        _counted: Box<Counted>,
    }
    // SAFETY: the test has one thread.
    unsafe impl Send for Link<'_> {}
    impl Drop for Link<'_> {
        fn drop(&mut self) {
            if !self.next.is_null() {
                // SAFETY: only this link has the pointer to the next one, and the handle still exists.
                unsafe { (*self.handle).retire(self.next) };
            }
        }
    }

    let live = Arc::default();
    let domain = Domain::with_batch(System::detect(), 2);
    let handle = domain.register();
    let mut first = ptr::null_mut();
    for value in 0..ROUNDS {
        // SAFETY: `boxed` returns a pointer from a box.
        let _counted = unsafe { Box::from_raw(Counted::boxed(&live, value)) };
        first = Box::into_raw(Box::new(Link { next: first, handle: &handle, _counted }));
    }
    // SAFETY: no other thread has the pointer.
    unsafe { handle.retire(first) };
    (0..ROUNDS).for_each(|_| handle.reclaim());
    assert_eq!((live.load(SeqCst), handle.garbage()), (0, 0));
}

#[test]
fn a_compare_exchange_replaces_the_value_that_was_loaded() {
    let number = AtomicBox::new(1);
    let one = number.load().unwrap();
    number.store(Some(Box::new(2)));
    assert_eq!(number.compare_exchange(Some(&one), Some(Box::new(3))), Err(Some(Box::new(3))));
    let two = number.load();
    assert_eq!(number.compare_exchange(two.as_ref(), None), Ok(()));
    assert!(number.load().is_none());
    assert_eq!(number.compare_exchange(None, Some(Box::new(4))), Ok(()));
    assert_eq!((*one, *two.unwrap(), *number.load().unwrap()), (1, 2, 4));
}

#[test]
fn a_reader_sees_a_box_as_it_was_published() {
    // Initialises process-wide state before the threads start, because initialising it later could
    // synchronize the threads.
    assert_eq!(*AtomicBox::new(7).load().unwrap(), 7);
    for is_stored in [true, false] {
        let (found, looks) = (AtomicBox::empty(), AtomicBool::new(false));
        thread::scope(|scope| {
            scope.spawn(|| {
                let number = loop {
                    match found.load() {
                        Some(number) => break number,
                        None => thread::yield_now(),
                    }
                    looks.store(true, Relaxed);
                };
                assert_eq!(*number, 7);
            });
            while !looks.load(Relaxed) {
                thread::yield_now();
            }
            let new = Some(Box::new(7));
            match is_stored {
                true => found.store(new),
                false => assert!(found.compare_exchange(None, new).is_ok()),
            }
        });
    }
}

#[test]
fn increments_of_a_box_are_not_lost() {
    let number = AtomicBox::new(0);
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                for _ in 0..ROUNDS {
                    let mut new = Some(Box::default());
                    while let Some(mut next) = new {
                        let current = number.load().unwrap();
                        *next = *current + 1;
                        new = number.compare_exchange(Some(&current), Some(next)).err().flatten();
                    }
                }
            });
        }
    });
    assert_eq!(*number.load().unwrap(), 3 * ROUNDS);
}

#[test]
fn a_guard_may_outlive_the_box_and_the_handle_of_its_thread() {
    thread_local! {
        // `KEPT` is initialised before the handle, so it is destroyed after the handle.
        static KEPT: RefCell<Vec<Guard<'static, Counted>>> = const { RefCell::new(Vec::new()) };
    }
    let live = Arc::default();
    thread::scope(|scope| {
        scope.spawn(|| {
            KEPT.with_borrow_mut(|kept| {
                // SAFETY: `boxed` returns a pointer from a box.
                let value = unsafe { Box::from_raw(Counted::boxed(&live, 7)) };
                let shared = AtomicBox::from(Some(value));
                kept.extend((0..SLOTS + 1).filter_map(|_| shared.load()));
                drop(shared);
                reclaim();
                assert!(kept.iter().all(|guard| guard.value == 7));
            });
        });
    });
    // A thread of another test may have adopted the value; it then frees the value at its next scan.
    while live.load(SeqCst) != 0 {
        reclaim();
        thread::yield_now();
    }
}

#[test]
fn a_barrier_panics_in_a_destructor_that_it_would_wait_for() {
    struct Waits<'d>(&'d Domain);
    impl Drop for Waits<'_> {
        fn drop(&mut self) {
            self.0.barrier();
        }
    }

    let domain = Domain::default();
    let retired = || {
        let handle = domain.register();
        // SAFETY: no other thread has the pointer.
        unsafe { handle.retire(Box::into_raw(Box::new(Waits(&domain)))) };
        handle
    };
    let panics = |call: &dyn Fn()| panic::catch_unwind(AssertUnwindSafe(call)).is_err();
    let handle = retired();
    assert!(panics(&|| handle.reclaim()));
    let handle = retired();
    assert!(panics(&|| domain.barrier()));
    drop(handle);
    assert!(panics(&|| drop(retired())));
    domain.barrier();
}
