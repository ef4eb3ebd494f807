//! One CPU at a time changes the protection of a page that all CPUs access.

use core::sync::atomic::{AtomicU64, Ordering::SeqCst};

use knee_vm::{Fault, Page, Pages, Protection};

use super::{Options, new_space};
use crate::access::{load, store, write};
use crate::cpu::{current, drop_space};
use crate::jobs::on_each_cpu;
use crate::machine::Space;

const PAGES: usize = 4;

/// The phase of a page: 4n while it is read-only, 4n + 2 while it is writable, odd while a CPU changes it.
struct Shared {
    page: Page,
    phase: AtomicU64,
}

impl Shared {
    /// The address of the word that a CPU writes.
    fn address(&self, cpu: usize) -> u64 {
        self.page.address().0 + 8 * (1 + cpu as u64)
    }

    fn change(&self, space: &Space) {
        let phase = self.phase.load(SeqCst);
        let is_ours = || self.phase.compare_exchange(phase, phase + 1, SeqCst, SeqCst).is_ok();
        if phase % 2 == 1 || !is_ours() {
            return;
        }
        let pages = Pages::new(self.page, 1);
        if phase.is_multiple_of(4) {
            // No CPU can store to the page now.
            let words = || [0, 1].map(|cpu| load(space, self.address(cpu)));
            assert_eq!(words(), words(), "a read-only page changed");
            space.protect(current(), pages, Protection::READ_WRITE).expect("the page is mapped");
        } else {
            space.protect(current(), pages, Protection::READ).expect("the page is mapped");
        }
        self.phase.store(phase + 2, SeqCst);
    }

    fn access(&self, space: &Space, cpu: usize, value: u64) {
        let address = self.address(cpu);
        let old = load(space, address).expect("the page is readable");
        let before = self.phase.load(SeqCst);
        let result = match value % 4 {
            0 => write(space, address, value).map(|_| ()),
            _ => store(space, address, value),
        };
        let after = self.phase.load(SeqCst);
        if before == after && before.is_multiple_of(2) {
            let expected = if before.is_multiple_of(4) { Err(Fault::AccessDenied) } else { Ok(()) };
            assert_eq!(result, expected, "a store to {:?}", self.page);
        }
        let new = load(space, address).expect("the page is readable");
        match result {
            Ok(()) => {
                assert!(new == value || value.is_multiple_of(4) && new > value, "a store was lost")
            }
            // The fault may have stopped a long write halfway.
            Err(Fault::AccessDenied) => {
                assert!(
                    new == old || value.is_multiple_of(4),
                    "a denied store has changed the word"
                )
            }
            Err(fault) => panic!("{fault}"),
        }
    }
}

pub(super) fn protect(options: &Options) {
    let space = new_space();
    let start = Page(0x4_0000 - 2);
    space
        .map(current(), Pages::new(start, PAGES as u64), Protection::READ)
        .expect("the pages are free");
    let shared: [Shared; PAGES] = core::array::from_fn(|index| Shared {
        page: start + index as u64,
        phase: AtomicU64::new(0),
    });
    on_each_cpu(&|number| {
        let mut random = options.random(number);
        for round in 0..options.rounds {
            let page = &shared[random.below(PAGES as u64) as usize];
            match random.below(6) {
                0 => page.change(&space),
                _ => page.access(&space, number, round << 32 | (1 + random.below(1000))),
            }
        }
    });
    drop_space(space);
}
