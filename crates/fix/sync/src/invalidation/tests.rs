use std::mem;
use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Mutex, mpsc};
use std::thread;

use super::*;
use crate::system::System;

const SECTIONS: usize = if cfg!(miri) { 8 } else { 4_000 };
const THREADS: usize = 3;
const PAGES: usize = 5;

/// A page, with a lock that guards the list of the sections that have marked the page.
#[derive(Default)]
struct Page {
    marked_by: Mutex<Vec<usize>>,
    stamp: Stamp,
}

/// Threads mark pages, and set a flag at the end of each section. Another thread reads which sections have
/// marked a page, waits for the page, and must find the flags of these sections set. The accesses to the
/// flags are relaxed: only the wait orders them.
#[test]
fn a_wait_covers_each_section_that_has_marked_the_page() {
    let tracker = Tracker::new();
    let pages: [Page; PAGES] = Default::default();
    let over: Vec<_> = (0..THREADS * SECTIONS).map(|_| AtomicBool::new(false)).collect();
    let mark = |thread: usize| {
        let mut member = tracker.register();
        for (section, is_over) in over.iter().enumerate().skip(thread * SECTIONS).take(SECTIONS) {
            let guard = member.begin();
            for page in pages.iter().skip(section % 3).step_by(1 + section % 2) {
                let mut marked_by = page.marked_by.lock().unwrap();
                marked_by.push(section);
                guard.mark(&page.stamp);
            }
            if section % 16 == 0 {
                // Lets waiters run, even on a single CPU.
                thread::yield_now();
            }
            is_over.store(true, Relaxed);
            guard.finish();
            if section % 64 == 0 {
                drop(mem::replace(&mut member, tracker.register()));
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
                assert_eq!(early, None, "a wait returned before this section had ended");
            }
        }
    });
    eprintln!("{waited_for} sections had not ended when a wait for them began");
    assert!(over.into_iter().all(AtomicBool::into_inner));
}

/// A wait for a page covers the section that has marked the page, but ignores a section that began later and
/// has not marked the page.
#[test]
fn a_wait_ignores_younger_sections() {
    let (tracker, stamps) = (Tracker::new(), [Stamp::new(), Stamp::new()]);
    let (mut first, mut second) = (tracker.register(), tracker.register());
    let older = first.begin();
    older.mark(&stamps[0]);
    let younger = second.begin();
    older.finish();
    // A thread that waited for the younger section would wait forever.
    tracker.wait(&stamps[0]);
    tracker.wait(&stamps[1]);
    younger.mark(&stamps[0]);
    younger.finish();
    tracker.wait(&stamps[0]);
}

/// A wait returns only after both sections that have marked the page have ended.
#[test]
fn a_wait_covers_both_sections_that_have_marked_the_page() {
    let (tracker, stamp) = (Tracker::new(), Stamp::new());
    let (mut first, mut second) = (tracker.register(), tracker.register());
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
        has_returned.recv().expect("both sections have ended");
    });
}

#[test]
fn a_wait_ignores_older_sections_that_marked_another_page() {
    let tracker = Tracker::new();
    let stamps: [Stamp; 32] = Default::default();
    let (mut first, mut second) = (tracker.register(), tracker.register());
    let older = first.begin();
    older.mark(&stamps[0]);
    // Each stamp has one of 64 bits. At least one of the other 31 stamps almost certainly has a bit that the
    // first stamp does not have.
    let other = stamps[1..].iter().find(|stamp| {
        second.begin().mark(stamp);
        stamp.bit() != stamps[0].bit()
    });
    tracker.wait(other.expect("all stamps have the same bit"));
    older.finish();
}

#[test]
fn a_wait_for_a_stamp_that_moved_waits_for_the_sections_that_marked_it() {
    let tracker = Tracker::new();
    let mut member = tracker.register();
    let stamps: Vec<_> = (0..8).map(|_| Stamp::new()).collect();
    let section = member.begin();
    stamps.iter().for_each(|stamp| section.mark(stamp));
    let bits = |stamps: &[Stamp]| stamps.iter().map(|s| s.bit()).collect::<Vec<_>>();
    let before = bits(&stamps);
    let moved: Vec<_> = stamps.into_iter().rev().collect();
    moved.iter().for_each(|stamp| section.mark(stamp));
    assert_eq!(bits(&moved), before.into_iter().rev().collect::<Vec<_>>());
    section.finish();
    moved.iter().for_each(|stamp| tracker.wait(stamp));
}

#[test]
fn a_member_with_a_forgotten_section_cannot_begin_another() {
    let tracker = Tracker::new();
    let mut member = tracker.register();
    mem::forget(member.begin());
    let again = panic::catch_unwind(AssertUnwindSafe(|| member.begin().finish()));
    assert!(again.is_err());
    drop(member);
    // The leaked section never gives its slot back, so a new member gets a different slot.
    tracker.register().begin().finish();
}

#[test]
fn a_section_may_end_on_another_thread() {
    let tracker: Tracker<System> = Tracker::new();
    let (mut member, stamp) = (tracker.register(), Stamp::new());
    let section = member.begin();
    section.mark(&stamp);
    thread::scope(|scope| {
        scope.spawn(move || section.finish());
        tracker.wait(&stamp);
    });
}
