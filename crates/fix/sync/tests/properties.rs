//! Guarantees that hold after any sequence of operations by several threads, checked against simple
//! reference models.

#![cfg(not(miri))]

use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;

use knee_sync::epoch::Domain;
use knee_sync::invalidation::{Stamp, Tracker};
use knee_sync::refs::refcache::{RefcacheArc, tick};
use knee_sync::refs::{PerCpuRef, Snzi};
use knee_sync::rm::RmLock;
use knee_sync::{System, hazard};
use proptest::prelude::*;

const THREADS: usize = 3;

/// A thread that executes one operation at a time, on request.
struct Worker<O, R> {
    tell: Sender<O>,
    told: Receiver<R>,
}

impl<O: Send, R: Send> Worker<O, R> {
    /// Starts a thread that runs `serve`, which receives operations until the sender is dropped.
    fn start<'scope>(
        scope: &'scope thread::Scope<'scope, '_>,
        serve: impl FnOnce(Receiver<O>, Sender<R>) + Send + 'scope,
    ) -> Worker<O, R>
    where
        O: 'scope,
        R: 'scope,
    {
        let ((tell, hear), (say, told)) = (channel(), channel());
        scope.spawn(move || serve(hear, say));
        Worker { tell, told }
    }

    fn does(&self, operation: O) -> R {
        self.tell.send(operation).expect("the worker listens");
        self.told.recv().expect("the worker answers")
    }
}

/// Sets a flag when it is dropped.
struct Told(Arc<AtomicBool>);

impl Drop for Told {
    fn drop(&mut self) {
        assert!(!self.0.swap(true, SeqCst), "dropped twice");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(64) })]

    /// One thread takes and puts references on behalf of several threads. At some point the count is killed.
    /// Later the count may be reinitialised.
    #[test]
    fn a_count_becomes_zero_with_its_last_reference(
        operations in prop::collection::vec((0..5_u8, 0..THREADS), 1..80)
    ) {
        let count = PerCpuRef::new(System::detect());
        let (mut references, mut dead) = (1_u32, false);
        for (operation, thread) in operations {
            // SAFETY: only this thread uses the numbers.
            unsafe {
                match operation {
                    0 => prop_assert_eq!(count.tryget_live_as(thread), !dead),
                    1 if references > 0 => count.get_as(thread),
                    // Only `kill` puts the owner's reference.
                    2 | 3 if references > u32::from(!dead) => {
                        let last = count.put_as(thread);
                        references -= 1;
                        prop_assert_eq!(last, references == 0);
                        continue;
                    }
                    4 if !dead => {
                        references -= 1;
                        prop_assert_eq!(count.kill(), references == 0);
                        dead = true;
                        continue;
                    }
                    4 if references == 0 => {
                        count.reinit();
                        (references, dead) = (1, false);
                        continue;
                    }
                    _ => continue,
                }
            }
            references += u32::from(operation == 1 || !dead);
            prop_assert_eq!(count.is_zero(), references == 0);
        }
    }

    /// Guards and sections begin and end. A deferred call waits for the guards and sections that had begun
    /// before it.
    #[test]
    fn a_deferred_object_is_freed_when_all_earlier_sections_have_ended(
        symmetric: bool,
        operations in prop::collection::vec((0..7_u8, 0..THREADS), 1..100)
    ) {
        let domain = Domain::new(if symmetric { System::symmetric() } else { System::detect() });
        let handles = [(); THREADS].map(|()| domain.register());
        // For each handle, its guards and the time at which the first of them began. Sections, with their
        // start times.
        let mut guards = [(); THREADS].map(|()| Vec::new());
        let (mut began, mut sections) = ([0; THREADS], Vec::new());
        // Deferred objects: when each was deferred, by which handle, and whether it was freed.
        let mut deferred: Vec<(usize, usize, Arc<AtomicBool>)> = Vec::new();
        for (now, (operation, thread)) in operations.into_iter().enumerate() {
            let handle = &handles[thread];
            match operation {
                0 => {
                    if guards[thread].is_empty() {
                        began[thread] = now;
                    }
                    guards[thread].push(handle.pin());
                }
                1 => drop(guards[thread].pop()),
                2 => sections.push((now, handle.section())),
                3 if !sections.is_empty() => drop(sections.swap_remove(thread % sections.len())),
                4 => {
                    let freed = Arc::default();
                    let told = Told(Arc::clone(&freed));
                    handle.pin().defer(|| drop(told));
                    deferred.push((now, thread, freed));
                }
                5 => handle.reclaim(),
                6 => {
                    if let [guard] = &mut guards[thread][..] {
                        guard.refresh();
                        began[thread] = now;
                    }
                }
                _ => continue,
            }
            let inside = (0..THREADS).filter(|&thread| !guards[thread].is_empty());
            let oldest = inside.map(|thread| began[thread]).chain(sections.iter().map(|&(began, _)| began));
            let oldest = oldest.min();
            for (when, by, freed) in &deferred {
                let freed = freed.load(SeqCst);
                prop_assert!(!freed || oldest.is_none_or(|oldest| oldest > *when), "an object was freed while a section may hold it");
                let is_due = operation == 5 && *by == thread && oldest.is_none();
                prop_assert!(freed || !is_due, "an object was not freed although no section can hold it");
            }
            let cookie = domain.cookie();
            prop_assert_eq!(domain.poll(cookie), oldest.is_none());
        }
        drop((guards, sections));
        domain.barrier();
        prop_assert!(deferred.iter().all(|(_, _, freed)| freed.load(SeqCst)));
    }

    /// The objects in two places are protected and replaced through several handles.
    #[test]
    fn a_retired_object_is_freed_by_the_next_scan_unless_it_is_protected(
        symmetric: bool,
        operations in prop::collection::vec((0..4_u8, 0..THREADS, 0..2_usize), 1..100)
    ) {
        let object = || {
            let freed = Arc::default();
            (AtomicPtr::new(Box::into_raw(Box::new(Told(Arc::clone(&freed))))), freed)
        };
        let domain = hazard::Domain::new(if symmetric { System::symmetric() } else { System::detect() });
        let handles = [(); THREADS].map(|()| domain.register());
        let mut places = [object(), object()];
        let mut guards = Vec::new();
        // For each retired object, the handle that retired it, and whether it was freed.
        let mut retired: Vec<(usize, Arc<AtomicBool>)> = Vec::new();
        for (operation, thread, place) in operations {
            let handle = &handles[thread];
            match operation {
                0 => {
                    // SAFETY: `places` points to live objects. When an object in `places` is replaced, the
                    // old object is retired to the domain.
                    let guard = unsafe { handle.protect(&places[place].0) };
                    guards.push((guard.expect("there is always one"), Arc::clone(&places[place].1)));
                }
                1 if !guards.is_empty() => drop(guards.swap_remove(thread % guards.len())),
                2 => {
                    let (old, freed) = std::mem::replace(&mut places[place], object());
                    // SAFETY: the object came from a box, and the replacement has unlinked it.
                    unsafe { handle.retire(old.into_inner()) };
                    retired.push((thread, freed));
                }
                3 => handle.reclaim(),
                _ => continue,
            }
            prop_assert!(guards.iter().all(|(_, freed)| !freed.load(SeqCst)), "a protected object was freed");
            for (by, freed) in &retired {
                let is_protected = guards.iter().any(|(_, other)| Arc::ptr_eq(freed, other));
                let is_due = operation == 3 && *by == thread && !is_protected;
                prop_assert!(!is_due || freed.load(SeqCst), "an unprotected object was not freed");
            }
        }
        for (place, _) in places {
            // SAFETY: the object came from a box. The loop consumes the shared pointer to the object, so no
            // thread can find the object any more.
            unsafe { handles[0].retire(place.into_inner()) };
        }
        // When the domain is dropped, it frees the objects that were protected until now.
        drop(handles);
        drop(guards);
        drop(domain);
        prop_assert!(retired.iter().all(|(_, freed)| freed.load(SeqCst)));
    }

    #[test]
    fn an_indicator_shows_whether_any_thread_has_arrived(
        leaves in 1..20_usize,
        operations in prop::collection::vec((any::<bool>(), 0..100_usize), 1..100)
    ) {
        let snzi = Snzi::new(leaves);
        let mut there = Vec::new();
        for (arrives, number) in operations {
            if arrives {
                there.push(snzi.arrive_at(number));
            } else if !there.is_empty() {
                drop(there.swap_remove(number % there.len()));
            }
            prop_assert_eq!(snzi.query(), !there.is_empty());
        }
    }

    /// Threads clone, drop and upgrade references, each thread with a cache of its own. A tick may come at
    /// any time.
    #[test]
    fn a_value_lives_as_long_as_its_references_and_is_freed_by_the_third_tick(
        operations in prop::collection::vec((0..4_u8, 0..THREADS), 1..80)
    ) {
        struct Value(Arc<AtomicBool>);
        impl Drop for Value {
            fn drop(&mut self) {
                self.0.store(true, SeqCst);
            }
        }
        let freed = Arc::new(AtomicBool::new(false));
        let first = RefcacheArc::new(Value(Arc::clone(&freed)));
        let weak = first.downgrade();
        let kept = Mutex::new(vec![first]);
        thread::scope(|scope| {
            let workers = [(); THREADS].map(|()| {
                Worker::start(scope, |operations: Receiver<u8>, say: Sender<bool>| {
                    for operation in operations {
                        let mut kept = kept.lock().expect("no thread panics while it has the lock");
                        let done = match operation {
                            0 => kept.last().cloned().map(|clone| kept.push(clone)).is_some(),
                            1 => weak.upgrade().map(|shared| kept.push(shared)).is_some(),
                            _ => kept.pop().is_some(),
                        };
                        say.send(done).expect("the receiver waits");
                    }
                })
            });
            let (mut references, mut ticks) = (1_usize, 0);
            for (operation, thread) in operations {
                let was_there = references;
                if operation == 3 {
                    tick();
                    ticks += 1;
                } else if workers[thread].does(operation) {
                    match operation {
                        0 | 1 => references += 1,
                        _ => references -= 1,
                    }
                    ticks = 0;
                } else {
                    prop_assert_eq!(was_there, 0);
                }
                prop_assert!(references == 0 || !freed.load(SeqCst), "freed with references");
                prop_assert!(references > 0 || ticks < 3 || freed.load(SeqCst), "not freed by the third tick");
            }
            kept.lock().expect("no thread panics while it has the lock").clear();
            (0..3).for_each(|_| tick());
            prop_assert!(freed.load(SeqCst));
            Ok(())
        })?;
    }

    /// Threads try to lock for reading and for writing, and keep the guards that they get.
    #[test]
    fn a_writer_excludes_all_other_threads_and_a_reader_excludes_only_writers(
        operations in prop::collection::vec((0..4_u8, 0..THREADS), 1..80)
    ) {
        let lock = RmLock::new(0_u32);
        thread::scope(|scope| {
            let workers = [(); THREADS].map(|()| {
                Worker::start(scope, |operations: Receiver<u8>, say: Sender<bool>| {
                    let (mut reads, mut write) = (Vec::new(), None);
                    for operation in operations {
                        let done = match operation {
                            0 => lock.try_read().map(|guard| reads.push(guard)).is_some(),
                            1 if write.is_none() => {
                                write = lock.try_write();
                                write.is_some()
                            }
                            2 => reads.pop().is_some(),
                            3 => write.take().is_some(),
                            _ => false,
                        };
                        say.send(done).expect("the receiver waits");
                    }
                })
            });
            let (mut reads, mut writer) = ([0; THREADS], None);
            for (operation, thread) in operations {
                let nobody_reads = reads.iter().sum::<usize>() == 0;
                let expected = match operation {
                    0 => writer.is_none(),
                    1 => writer.is_none() && nobody_reads,
                    2 => reads[thread] > 0,
                    _ => writer == Some(thread),
                };
                prop_assert_eq!(workers[thread].does(operation), expected, "{}", operation);
                match operation {
                    _ if !expected => (),
                    0 => reads[thread] += 1,
                    1 => writer = Some(thread),
                    2 => reads[thread] -= 1,
                    _ => writer = None,
                }
            }
            Ok(())
        })?;
    }

    #[test]
    fn a_wait_returns_only_after_all_marking_sections_have_ended(
        operations in prop::collection::vec((0..4_u8, 0..THREADS, 0..2_usize), 1..40)
    ) {
        wait_is_over(&operations)?;
    }
}

/// Sections begin, mark pages and end. Each wait is for one page, and runs on a thread of its own. When the
/// wait returns, all sections that had marked the page before the wait must have ended.
fn wait_is_over(operations: &[(u8, usize, usize)]) -> Result<(), TestCaseError> {
    let tracker = &Tracker::new();
    let pages = &[(); 2].map(|()| (Stamp::new(), Mutex::new(Vec::<Arc<AtomicBool>>::new())));
    let early = &AtomicUsize::new(0);
    thread::scope(|scope| {
        let mut members = [(); THREADS].map(|()| tracker.register());
        let mut sections: Vec<_> = members.iter_mut().map(|member| (None, Some(member))).collect();
        for &(operation, thread, page) in operations {
            let (section, member) = &mut sections[thread];
            match operation {
                0 => {
                    if let Some(member) = member.take() {
                        *section = Some((member.begin(), Arc::new(AtomicBool::new(false))));
                    }
                }
                1 => {
                    if let Some((section, is_over)) = section {
                        let (stamp, marked_by) = &pages[page];
                        let mut marked_by =
                            marked_by.lock().expect("no thread panics while it has the lock");
                        marked_by.push(Arc::clone(is_over));
                        section.mark(stamp);
                    }
                }
                2 => {
                    if let Some((section, is_over)) = section.take() {
                        is_over.store(true, SeqCst);
                        section.finish();
                    }
                }
                _ => {
                    let (stamp, marked_by) = &pages[page];
                    let marked_by =
                        marked_by.lock().expect("no thread panics while it has the lock").clone();
                    scope.spawn(move || {
                        tracker.wait(stamp);
                        let is_early = |is_over: &Arc<AtomicBool>| !is_over.load(SeqCst);
                        early.fetch_add(
                            marked_by.iter().filter(|over| is_early(over)).count(),
                            SeqCst,
                        );
                    });
                    // Give the other thread time to run: if `wait` returned too early, it would usually do so
                    // now.
                    (0..3).for_each(|_| thread::yield_now());
                }
            }
        }
        for (section, _) in &mut sections {
            if let Some((section, is_over)) = section.take() {
                is_over.store(true, SeqCst);
                section.finish();
            }
        }
    });
    prop_assert_eq!(early.load(SeqCst), 0, "a wait returned before a section had ended");
    Ok(())
}
