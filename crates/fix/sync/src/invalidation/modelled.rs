//! All orders in which one that marks meets one that waits, up to a number of preemptions.

use loom::sync::{Arc, Mutex};

use super::{Stamp, Tracker};
use crate::model::{Model, check, thread};
use crate::primitive::Guarded;

struct Place {
    tracker: Tracker<Model>,
    /// How many sections have taken something out of the page.
    taken: Mutex<usize>,
    stamp: Stamp,
    /// Of a page that nobody else uses.
    other: Stamp,
    /// What the sections did after that. loom fails if somebody looks who has not waited.
    flushed: [Guarded<bool>; 2],
}

// SAFETY: waits guard the cells, which loom looks after.
unsafe impl Sync for Place {}
// SAFETY: as above.
unsafe impl Send for Place {}

fn place() -> Arc<Place> {
    Arc::new(Place {
        tracker: Tracker::on(Model),
        taken: Mutex::new(0),
        stamp: Stamp::new(),
        other: Stamp::new(),
        flushed: [Guarded::new(false), Guarded::new(false)],
    })
}

impl Place {
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
fn one_marks(marks: &'static [bool]) {
    check(3, move || {
        let place = place();
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
    one_marks(&[true]);
}

#[test]
fn a_slot_in_a_later_section_is_seen_to_have_finished_the_one_before() {
    one_marks(&[true, false]);
    one_marks(&[true, true]);
}

#[test]
fn two_slots_are_waited_for() {
    check(3, both_mark);
}

/// Two threads have a section each, and the second waits for both.
fn both_mark() {
    let place = place();
    let marker = {
        let place = Arc::clone(&place);
        thread::spawn(move || place.mark(&[true]))
    };
    place.mark(&[true]);
    place.wait();
    marker.join().unwrap();
}
