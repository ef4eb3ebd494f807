//! Schedules of threads that mark pages and of threads that wait for the marked pages.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use shuttle::sync::Mutex;

use super::{Stamp, Tracker};
use crate::model::{Model, check, thread};

const MARKERS: usize = 3;
const SECTIONS: usize = 3;
const PAGES: usize = 2;

/// A page, with a lock that guards the list of the sections that have marked the page.
#[derive(Default)]
struct Page {
    marked_by: Mutex<Vec<usize>>,
    stamp: Stamp,
}

struct World {
    tracker: Tracker<Model>,
    pages: [Page; PAGES],
    /// Whether each section is over. These atomics come from `std`, so they are not part of the model.
    over: [AtomicBool; MARKERS * SECTIONS],
}

impl World {
    /// Runs the sections of one thread. Each section marks one page or two. After the second section, the
    /// thread unregisters and registers again.
    fn mark(&self, thread: usize) {
        let mut member = self.tracker.register();
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
                member = self.tracker.register();
            }
        }
    }

    fn wait(&self) {
        for page in self.pages.iter().cycle().take(2 * PAGES) {
            let sections = page.marked_by.lock().unwrap().clone();
            self.tracker.wait(&page.stamp);
            let early = sections.iter().find(|&&section| !self.over[section].load(Relaxed));
            assert_eq!(early, None, "a wait returned before this section had ended");
        }
    }
}

/// Three threads mark pages, and three threads wait for the pages.
#[test]
fn a_wait_covers_all_slots_that_have_marked_the_page() {
    check(|| {
        let tracker = Tracker::on(Model);
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
