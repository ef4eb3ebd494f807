//! Models of threads that mark pages in sections, and of a thread that waits for these sections.

use loom::sync::{Arc, Mutex};

use super::{Stamp, Tracker};
use crate::model::{Model, check, thread};
use crate::primitive::Guarded;

struct Place {
    tracker: Tracker<Model>,
    /// The number of sections that have marked the page.
    taken: Mutex<usize>,
    stamp: Stamp,
    /// The stamp of a second page. No thread waits for the sections that mark only this page.
    other: Stamp,
    /// One flag for each section that marks the page. The section sets its flag after it has marked the page.
    /// loom panics if a thread reads a flag without having waited for that section.
    flushed: [Guarded<bool>; 2],
}

// SAFETY: all accesses to a cell are ordered by waits, and loom panics if two accesses are not ordered.
unsafe impl Sync for Place {}
// SAFETY: as for `Sync`.
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
    /// Runs a section for each element of `marks`. If the element is true, the section marks the page;
    /// otherwise it marks the other page.
    fn mark(&self, marks: &[bool]) {
        let mut member = self.tracker.register();
        for mark in marks {
            let section = member.begin();
            if *mark {
                let number = {
                    let mut taken = self.taken.lock().unwrap();
                    *taken += 1;
                    section.mark(&self.stamp);
                    *taken - 1
                };
                // SAFETY: no other section has this number, and waiters read the flag only after this section
                // has ended.
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
            // SAFETY: this thread has waited for the section.
            assert!(flushed.with(|flushed| unsafe { *flushed }));
        }
    }
}

/// Runs these sections in another thread while this thread waits.
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
fn a_wait_covers_a_section_that_has_marked_the_page() {
    one_marks(&[true]);
}

#[test]
fn a_slot_in_a_later_section_shows_that_the_previous_section_has_ended() {
    one_marks(&[true, false]);
    one_marks(&[true, true]);
}

#[test]
fn a_wait_covers_the_sections_of_two_slots() {
    check(3, both_mark);
}

/// This thread and another each run a section, and this thread waits for both sections.
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
