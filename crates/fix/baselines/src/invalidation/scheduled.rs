//! Shuttle models of each implementation of delayed invalidation: some threads mark pages, and other threads
//! wait for the marking sections.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use knee_sync::shim::{Model, Mutex, check, thread};

use super::{Epoch, Invalidation, LockFree, Locked, Stamp, Tracker};

const MARKERS: usize = 3;
const SECTIONS: usize = 3;
const PAGES: usize = 2;

/// The stamp of a page and, under the page's lock, the sections that have marked the page.
#[derive(Default)]
struct Page {
    marked_by: Mutex<Vec<usize>>,
    stamp: Stamp,
}

struct World<F: Invalidation> {
    tracker: Tracker<F, Model>,
    pages: [Page; PAGES],
    /// Whether each section is over. These atomics of `std` are not part of the model.
    over: [AtomicBool; MARKERS * SECTIONS],
}

impl<F: Invalidation> World<F> {
    /// Runs the sections of one thread, which joins the tracker again after its second section. Each section
    /// marks one or two pages.
    fn mark(&self, thread: usize) {
        let mut member = self.tracker.join();
        for section in thread * SECTIONS..(thread + 1) * SECTIONS {
            let guard = member.begin();
            for page in self.pages.iter().skip(section % PAGES) {
                let mut marked_by = page.marked_by.lock().unwrap();
                marked_by.push(section);
                guard.mark(&page.stamp);
            }
            thread::yield_now();
            self.over[section].store(true, Relaxed);
            guard.finish();
            if section % SECTIONS == 1 {
                drop(member);
                member = self.tracker.join();
            }
        }
    }

    fn wait(&self) {
        for page in self.pages.iter().cycle().take(2 * PAGES) {
            let sections = page.marked_by.lock().unwrap().clone();
            self.tracker.wait(&page.stamp);
            let early = sections.iter().find(|&&section| !self.over[section].load(Relaxed));
            assert_eq!(early, None, "the wait returned before the section ended");
        }
    }
}

/// Three threads mark pages, and three other threads wait.
fn waits_for_marks<F: Invalidation + Send + 'static>(form: fn() -> F) {
    check(move || {
        let tracker = Tracker::on(Model, form());
        let world =
            Arc::new(World { tracker, pages: Default::default(), over: Default::default() });
        let markers = (0..MARKERS).map(|marker| {
            let world = Arc::clone(&world);
            thread::spawn(move || world.mark(marker))
        });
        let markers: Vec<_> = markers.collect();
        let waiters = [(), ()].map(|()| {
            let world = Arc::clone(&world);
            thread::spawn(move || world.wait())
        });
        world.wait();
        markers.into_iter().chain(waiters).for_each(|thread| thread.join().unwrap());
        world.wait();
    });
}

#[test]
fn the_epoch_form_waits_for_marks() {
    waits_for_marks(Epoch::new);
}

#[test]
fn the_locked_form_waits_for_marks() {
    waits_for_marks(Locked::new);
}

#[test]
fn the_lock_free_form_waits_for_marks() {
    waits_for_marks(|| LockFree::new().expect("models have words of 128 bits"));
}
