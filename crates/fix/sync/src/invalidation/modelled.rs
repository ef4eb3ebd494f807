//! All orders in which one that marks meets one that waits, up to a number of preemptions.

use crate::primitive::AtomicBool;
use loom::sync::{Arc, Mutex};
use std::sync::atomic::Ordering::{AcqRel, Acquire};

use super::{Epoch, Invalidation, LockFree, Locked, Slots, Stamp, Tracker};
use crate::model::{Model, RawLock, check, check_symmetric, interrupt, thread};
use crate::primitive::Guarded;

struct Place<F: Invalidation> {
    tracker: Tracker<F, Model>,
    /// How many sections have taken something out of the page.
    taken: Mutex<usize>,
    stamp: Stamp,
    /// Of a page that nobody else uses.
    other: Stamp,
    /// What the sections did after that. loom fails if somebody looks who has not waited.
    flushed: [Guarded<bool>; 2],
}

// SAFETY: waits guard the cells, which loom looks after.
unsafe impl<F: Invalidation> Sync for Place<F> {}
// SAFETY: as above.
unsafe impl<F: Invalidation> Send for Place<F> {}

fn place<F: Invalidation>(form: F) -> Arc<Place<F>> {
    Arc::new(Place {
        tracker: Tracker::on(Model, form),
        taken: Mutex::new(0),
        stamp: Stamp::new(),
        other: Stamp::new(),
        flushed: [Guarded::new(false), Guarded::new(false)],
    })
}

impl<F: Invalidation> Place<F> {
    /// One section after the other; those of `marks` mark the page, the others another
    /// one.
    fn mark(&self, marks: &[bool]) {
        let mut member = self.tracker.join();
        for mark in marks {
            let section = member.begin();
            if *mark {
                let number = {
                    let mut taken = self.taken.lock().unwrap();
                    *taken += 1;
                    section.mark(&self.stamp);
                    *taken - 1
                };
                // SAFETY: the section is the only one with this number, and waiters wait for it.
                self.flushed[number].with(|flushed| unsafe { *flushed = true });
            } else {
                section.mark(&self.other);
            }
            section.finish();
        }
    }

    fn wait(&self) {
        let taken = *self.taken.lock().unwrap();
        self.tracker.wait(&self.stamp);
        for flushed in &self.flushed[..taken] {
            // SAFETY: we have waited for the section.
            assert!(flushed.with(|flushed| unsafe { *flushed }));
        }
    }
}

/// One thread has these sections, and another one waits.
fn one_marks<F: Invalidation + Send + 'static>(form: fn() -> F, marks: &'static [bool]) {
    check(3, move || {
        let place = place(form());
        let marker = {
            let place = Arc::clone(&place);
            thread::spawn(move || place.mark(marks))
        };
        place.wait();
        marker.join().unwrap();
    });
}

#[test]
fn a_slot_is_waited_for() {
    one_marks(Slots::new, &[true]);
}

#[test]
fn a_slot_in_a_later_section_is_seen_to_have_finished_the_one_before() {
    one_marks(Slots::new, &[true, false]);
    one_marks(Slots::new, &[true, true]);
}

#[test]
fn two_slots_are_waited_for() {
    check(3, || both_mark(Slots::new));
}

#[test]
fn an_epoch_is_waited_for() {
    one_marks(Epoch::new, &[true, false]);
}

#[test]
fn an_epoch_is_waited_for_without_a_lock() {
    check(3, || {
        let place = place(Epoch::new());
        let is_there = Arc::new(AtomicBool::new(true));
        let reader = {
            let (place, is_there) = (Arc::clone(&place), Arc::clone(&is_there));
            thread::spawn(move || {
                let mut member = place.tracker.join();
                let section = member.begin();
                if is_there.load(Acquire) {
                    interrupt();
                    // SAFETY: who takes it away waits for the section, which loom sees to.
                    place.flushed[0].with(|flushed| assert!(unsafe { !*flushed }));
                }
                section.finish();
            })
        };
        is_there.swap(false, AcqRel);
        place.tracker.wait(&place.stamp);
        // SAFETY: as above.
        place.flushed[0].with(|flushed| unsafe { *flushed = true });
        reader.join().unwrap();
    });
}

#[test]
fn a_locked_section_is_waited_for() {
    one_marks(Locked::<RawLock>::default, &[true, false]);
}

#[test]
fn sections_that_are_linked_are_waited_for() {
    one_marks(lock_free, &[true, false]);
}

fn lock_free() -> LockFree {
    LockFree::new().expect("models have words of 128 bits")
}

/// Two threads have a section each, and the second waits for both.
fn both_mark<F: Invalidation + Send + 'static>(form: fn() -> F) {
    let place = place(form());
    let marker = {
        let place = Arc::clone(&place);
        thread::spawn(move || place.mark(&[true]))
    };
    place.mark(&[true]);
    place.wait();
    marker.join().unwrap();
}

fn two_mark<F: Invalidation + Send + 'static>(preemptions: usize, form: fn() -> F) {
    check_symmetric(preemptions, move || both_mark(form));
}

#[test]
fn two_locked_sections_are_waited_for() {
    two_mark(3, Locked::<RawLock>::default);
}

#[test]
fn two_sections_that_are_linked_are_waited_for() {
    two_mark(2, lock_free);
}
