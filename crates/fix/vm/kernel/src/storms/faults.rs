//! One CPU at a time maps and unmaps a page, while all CPUs access it.

use core::sync::atomic::{AtomicU64, Ordering::SeqCst};

use knee_vm::{Fault, Page, Pages, Protection};

use super::{Options, new_space};
use crate::access::{load, store, watch};
use crate::cpu::{current, drop_space};
use crate::jobs::on_each_cpu;
use crate::machine::Space;

const PAGES: usize = 8;

/// The version of a page: 4n while it is unmapped, 4n + 1 while a CPU maps it, 4n + 2 while it is mapped and
/// has its word, 4n + 3 while it is being unmapped.
struct Shared {
    page: Page,
    version: AtomicU64,
}

impl Shared {
    fn address(&self) -> u64 {
        self.page.address().0 + 8 * (1 + self.page.0 % 3)
    }

    /// The word that is stored in the page. The four versions 4n to 4n + 3 have the same word.
    fn word(&self, version: u64) -> u64 {
        self.page.0 << 32 | version >> 2 << 1 | 1
    }

    /// Maps the page if it is unmapped, or unmaps it if it is mapped. Does nothing if another CPU is changing
    /// the page.
    fn change(&self, space: &Space) {
        let version = self.version.load(SeqCst);
        let is_ours =
            || self.version.compare_exchange(version, version + 1, SeqCst, SeqCst).is_ok();
        if version % 2 == 1 || !is_ours() {
            return;
        }
        let pages = Pages::new(self.page, 1);
        if version.is_multiple_of(4) {
            space.map(current(), pages, Protection::READ_WRITE).expect("the page is free");
            assert_eq!(store(space, self.address(), self.word(version)), Ok(()));
        } else {
            space.unmap(current(), pages).expect("there is memory");
        }
        self.version.store(version + 2, SeqCst);
    }

    /// Accesses the page. If the version is even before the access and is the same after the access, only one
    /// result is correct.
    fn access(&self, space: &Space, long: bool) {
        let before = self.version.load(SeqCst);
        let expected = self.word(before & !3);
        let found =
            if long { watch(space, self.address(), expected) } else { load(space, self.address()) };
        let after = self.version.load(SeqCst);
        match found {
            _ if before == after && before.is_multiple_of(4) => {
                assert_eq!(found, Err(Fault::Unmapped), "{:?} is unmapped", self.page);
            }
            _ if before == after && before % 4 == 2 => {
                assert_eq!(found, Ok(expected), "{:?} is mapped", self.page);
            }
            // A new page, before its word is stored.
            Ok(0) | Err(Fault::Unmapped) => (),
            Ok(word) => {
                let is_old = word >> 32 == self.page.0 && word & 1 == 1;
                let version = (word as u32 as u64) >> 1 << 2;
                let is_right = is_old && (before & !3..=after & !3).contains(&version);
                assert!(is_right, "{:?} has {word:#x} between {before} and {after}", self.page);
            }
            Err(fault) => panic!("{:?}: {fault}", self.page),
        }
    }
}

pub(super) fn faults(options: &Options) {
    let space = new_space();
    // The pages are in two leaf tables.
    let shared: [Shared; PAGES] = core::array::from_fn(|index| Shared {
        page: Page(0x2_0000 - PAGES as u64 / 2 + index as u64),
        version: AtomicU64::new(0),
    });
    on_each_cpu(&|number| {
        let mut random = options.random(number);
        for _ in 0..options.rounds {
            let page = &shared[random.below(PAGES as u64) as usize];
            match random.below(8) {
                0 | 1 => page.change(&space),
                kind => page.access(&space, kind == 2),
            }
        }
    });
    drop_space(space);
}
