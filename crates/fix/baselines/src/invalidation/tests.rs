use std::fmt;
use std::mem;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Mutex, mpsc};
use std::thread;

use super::*;

const SECTIONS: usize = if cfg!(miri) { 8 } else { 4_000 };
const THREADS: usize = 3;
const PAGES: usize = 5;

/// The stamp of a page and, under the page's lock, the sections that have marked the page.
#[derive(Default)]
struct Page {
    marked_by: Mutex<Vec<usize>>,
    stamp: Stamp,
}

/// Some threads mark pages, and set a flag at the end of each section. Another thread reads which sections
/// have marked a page, waits, and must then find the flags of all these sections set. Accesses to the flags
/// are Relaxed, so only the wait makes the stores to the flags visible.
fn waits_for_marks<F: Invalidation + fmt::Debug>(form: F) {
    let tracker = Tracker::new(form);
    let pages: [Page; PAGES] = Default::default();
    let over: Vec<_> = (0..THREADS * SECTIONS).map(|_| AtomicBool::new(false)).collect();
    let mark = |thread: usize| {
        let mut member = tracker.join();
        for (section, is_over) in over.iter().enumerate().skip(thread * SECTIONS).take(SECTIONS) {
            let guard = member.begin();
            for page in pages.iter().skip(section % 3).step_by(1 + section % 2) {
                let mut marked_by = page.marked_by.lock().unwrap();
                marked_by.push(section);
                guard.mark(&page.stamp);
            }
            if section % 16 == 0 {
                // Lets the waiting thread run, even if there is only one CPU.
                thread::yield_now();
            }
            is_over.store(true, Relaxed);
            guard.finish();
            if section % 64 == 0 {
                drop(mem::replace(&mut member, tracker.join()));
            }
        }
    };
    let mut waited_for = 0;
    thread::scope(|scope| {
        let markers: Vec<_> =
            (0..THREADS).map(|thread| scope.spawn(move || mark(thread))).collect();
        let mut is_last = false;
        while !is_last {
            is_last = markers.iter().all(|marker| marker.is_finished());
            for page in &pages {
                let sections = mem::take(&mut *page.marked_by.lock().unwrap());
                waited_for += sections.iter().filter(|&&s| !over[s].load(Relaxed)).count();
                tracker.wait(&page.stamp);
                let early = sections.iter().find(|&&section| !over[section].load(Relaxed));
                assert_eq!(early, None, "the wait returned before the section ended");
            }
        }
    });
    eprintln!("{waited_for} sections were not over when a wait for them began");
    assert!(over.into_iter().all(AtomicBool::into_inner));
}

/// A wait for a page does not wait for a younger section, if only an older section has marked the page.
fn does_not_wait_for_younger_sections<F: Invalidation>(form: F) {
    let (tracker, stamps) = (Tracker::new(form), [Stamp::new(), Stamp::new()]);
    let (mut first, mut second) = (tracker.join(), tracker.join());
    let older = first.begin();
    older.mark(&stamps[0]);
    let younger = second.begin();
    older.finish();
    // A wait for the younger section would never return.
    tracker.wait(&stamps[0]);
    tracker.wait(&stamps[1]);
    younger.mark(&stamps[0]);
    younger.finish();
    tracker.wait(&stamps[0]);
}

/// A wait returns only after both sections that have marked the page have ended.
fn waits_for_one<F: Invalidation + Send>(form: F) {
    let (tracker, stamp) = (Tracker::new(form), Stamp::new());
    let (mut first, mut second) = (tracker.join(), tracker.join());
    let older = first.begin();
    let younger = second.begin();
    older.mark(&stamp);
    younger.mark(&stamp);
    thread::scope(|scope| {
        let (returned, has_returned) = mpsc::channel();
        let (tracker, stamp) = (&tracker, &stamp);
        scope.spawn(move || {
            tracker.wait(stamp);
            returned.send(()).unwrap();
        });
        thread::sleep(std::time::Duration::from_millis(5));
        assert!(has_returned.try_recv().is_err());
        younger.finish();
        thread::sleep(std::time::Duration::from_millis(5));
        assert!(has_returned.try_recv().is_err());
        older.finish();
        has_returned.recv().expect("the wait returns after the last section");
    });
}

macro_rules! forms {
    ($($name:ident $form:expr, $test:ident;)*) => { $(
        #[test]
        fn $name() {
            $test($form);
        }
    )* };
}

forms! {
    the_epoch_form_waits_for_marks Epoch::new(), waits_for_marks;
    the_epoch_form_waits_for_the_last_of_two_sections Epoch::new(), waits_for_one;
    the_locked_form_waits_for_marks Locked::new(), waits_for_marks;
    the_locked_form_waits_for_the_last_of_two_sections Locked::new(), waits_for_one;
    the_locked_form_does_not_wait_for_younger_sections
        Locked::new(), does_not_wait_for_younger_sections;
}

/// Runs `test` if the CPU has a 128-bit compare-exchange.
fn with_lock_free(test: impl FnOnce(LockFree)) {
    match LockFree::new() {
        Some(form) => test(form),
        None => eprintln!("skipped: this CPU has no 128-bit compare-exchange"),
    }
}

#[test]
fn the_lock_free_form_waits_for_marks() {
    with_lock_free(waits_for_marks);
}

#[test]
fn the_lock_free_form_waits_for_the_last_of_two_sections() {
    with_lock_free(waits_for_one);
}

#[test]
fn the_lock_free_form_does_not_wait_for_younger_sections() {
    with_lock_free(does_not_wait_for_younger_sections);
}
