//! What a CPU remembers of tables.

use std::cell::Cell;

use crate::machine::Flush;
use crate::page::{Frame, Protection};

/// Entries, each for pages with the same lowest bits of their numbers.
const ENTRIES: usize = 256;

/// Of more pages than this all entries of the space are forgotten: to look at each is faster then.
const ONE_BY_ONE: u64 = 64;

/// A translation.
#[derive(Debug, Clone, Copy)]
pub(super) struct Known {
    space: u64,
    page: u64,
    pub(super) frame: Frame,
    pub(super) protection: Protection,
    /// The frame's, when this was made.
    pub(super) generation: u64,
}

/// No space has number 0.
const NOTHING: Known =
    Known { space: 0, page: 0, frame: Frame(0), protection: Protection::NONE, generation: 0 };

/// A translation lookaside buffer.
#[derive(Debug)]
pub(super) struct Tlb(Box<[Cell<Known>]>);

impl Default for Tlb {
    fn default() -> Tlb {
        Tlb(vec![Cell::new(NOTHING); ENTRIES].into())
    }
}

impl Tlb {
    fn entry(&self, page: u64) -> &Cell<Known> {
        &self.0[page as usize % ENTRIES]
    }

    #[inline]
    pub(super) fn find(&self, space: u64, page: u64) -> Option<Known> {
        let known = self.entry(page).get();
        (known.space == space && known.page == page).then_some(known)
    }

    pub(super) fn learn(
        &self,
        space: u64,
        page: u64,
        frame: Frame,
        protection: Protection,
        generation: u64,
    ) {
        self.entry(page).set(Known { space, page, frame, protection, generation });
    }

    pub(super) fn forget(&self, space: u64, pages: Flush) {
        match pages {
            Flush::Some(pages) if pages.count() <= ONE_BY_ONE => {
                for page in pages.start..pages.end {
                    if self.find(space, page).is_some() {
                        self.entry(page).set(NOTHING);
                    }
                }
            }
            _ => self.0.iter().filter(|entry| entry.get().space == space).for_each(|entry| {
                entry.set(NOTHING);
            }),
        }
    }

    pub(super) fn forget_all(&self) {
        self.0.iter().for_each(|entry| entry.set(NOTHING));
    }
}
