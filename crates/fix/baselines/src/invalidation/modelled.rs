//! Loom models of a thread that marks a page and a thread that waits for the marking sections. loom checks
//! all interleavings with at most a given number of preemptions.

use knee_sync::shim::{AtomicBool, Model, Mutex, check, check_symmetric, interrupt, thread};
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Acquire};

use super::{Epoch, Invalidation, LockFree, Locked, Stamp, Tracker};

struct Place<F: Invalidation> {
    tracker: Tracker<F, Model>,
    /// The number of sections that have marked the page.
    taken: Mutex<usize>,
    stamp: Stamp,
    /// The stamp of another page, for which no thread waits.
    other: Stamp,
    /// What each section did after its mark. loom fails if a thread reads this without waiting for the
    /// section.
    flushed: [UnsafeCell<bool>; 2],
}

// SAFETY: threads read the cells only after a wait, and loom checks that.
unsafe impl<F: Invalidation> Sync for Place<F> {}
// SAFETY: as above.
unsafe impl<F: Invalidation> Send for Place<F> {}

fn place<F: Invalidation>(form: F) -> Arc<Place<F>> {
    Arc::new(Place {
        tracker: Tracker::on(Model, form),
        taken: Mutex::new(0),
        stamp: Stamp::new(),
        other: Stamp::new(),
        flushed: [UnsafeCell::new(false), UnsafeCell::new(false)],
    })
}

impl<F: Invalidation> Place<F> {
    /// Runs one section for each element of `marks`. The section marks the page if the element is true, and
    /// another page otherwise.
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
                // SAFETY: only this section has this number, and readers wait for this section.
                self.flushed[number].with_mut(|flushed| unsafe { *flushed = true });
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
            // SAFETY: the wait above was for the section that writes this cell.
            assert!(flushed.with_mut(|flushed| unsafe { *flushed }));
        }
    }
}

/// One thread runs a section for each element of `marks`, and another thread waits for the sections that have
/// marked the page.
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
fn the_epoch_form_waits_for_a_section() {
    one_marks(Epoch::new, &[true, false]);
}

#[test]
fn the_epoch_form_waits_for_sections_even_without_a_lock() {
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
                    // SAFETY: the other thread writes only after its wait for this section, and loom checks
                    // that.
                    place.flushed[0].with_mut(|flushed| assert!(unsafe { !*flushed }));
                }
                section.finish();
            })
        };
        is_there.swap(false, AcqRel);
        place.tracker.wait(&place.stamp);
        // SAFETY: as above.
        place.flushed[0].with_mut(|flushed| unsafe { *flushed = true });
        reader.join().unwrap();
    });
}

#[test]
fn the_locked_form_waits_for_a_section() {
    one_marks(Locked::new, &[true, false]);
}

#[test]
fn the_lock_free_form_waits_for_a_section() {
    one_marks(lock_free, &[true, false]);
}

fn lock_free() -> LockFree {
    LockFree::new().expect("models have words of 128 bits")
}

/// Each of two threads runs a section, and the second thread then waits for both sections.
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
fn the_locked_form_waits_for_sections_of_two_threads() {
    two_mark(3, Locked::new);
}

#[test]
fn the_lock_free_form_waits_for_sections_of_two_threads() {
    two_mark(2, lock_free);
}
