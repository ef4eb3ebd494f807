//! What a CPU caches of page tables.

use std::cell::Cell;

use crate::machine::Flush;
use crate::page::{Frame, Protection};

/// Entries, each for pages with the same lowest bits of their numbers.
const ENTRIES: usize = 256;

/// A flush of more pages than this drops all entries of the space, which is faster than to look for each.
const ONE_BY_ONE: u64 = 64;

/// A translation.
#[derive(Debug, Clone, Copy)]
pub(super) struct Translation {
    /// The address-space identifier: the number of the space whose tables the walk went through.
    pub(super) space: u64,
    pub(super) page: u64,
    pub(super) frame: Frame,
    pub(super) protection: Protection,
    /// Hardware uses it in all spaces.
    pub(super) is_global: bool,
    /// The frame's when the translation was made.
    pub(super) generation: u64,
}

impl Translation {
    /// One that allows nothing: the entry of the page was absent.
    pub(super) const fn absent(space: u64, page: u64) -> Translation {
        let (frame, protection) = (Frame(0), Protection::NONE);
        Translation { space, page, frame, protection, is_global: false, generation: 0 }
    }
}

/// No space has number 0.
const EMPTY: Translation = Translation::absent(0, 0);

/// A translation lookaside buffer.
#[derive(Debug)]
pub(super) struct Tlb(Box<[Cell<Translation>]>);

impl Default for Tlb {
    fn default() -> Tlb {
        Tlb(vec![Cell::new(EMPTY); ENTRIES].into())
    }
}

impl Tlb {
    fn entry(&self, page: u64) -> &Cell<Translation> {
        &self.0[page as usize % ENTRIES]
    }

    /// # Panics
    /// If hardware would use a global translation of another space.
    #[inline]
    pub(super) fn find(&self, space: u64, page: u64) -> Option<Translation> {
        let cached = self.entry(page).get();
        if cached.space == space && cached.page == page {
            return Some(cached);
        }
        let other = cached.space;
        let is_hit = cached.is_global && cached.page == page;
        assert!(!is_hit, "space {space} uses the global translation of page {page:#x} of {other}");
        None
    }

    pub(super) fn insert(&self, translation: Translation) {
        self.entry(translation.page).set(translation);
    }

    pub(super) fn flush(&self, space: u64, pages: Flush) {
        match pages {
            Flush::Range(pages) if pages.count() <= ONE_BY_ONE => {
                for page in pages.start..pages.end {
                    let entry = self.entry(page);
                    if (entry.get().space, entry.get().page) == (space, page) {
                        entry.set(EMPTY);
                    }
                }
            }
            _ => self.0.iter().filter(|entry| entry.get().space == space).for_each(|entry| {
                entry.set(EMPTY);
            }),
        }
    }

    pub(super) fn flush_all(&self) {
        self.0.iter().for_each(|entry| entry.set(EMPTY));
    }
}
