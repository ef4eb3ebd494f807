//! The TLB of a CPU, with its page-walk cache.

use std::cell::Cell;

use crate::machine::Flush;
use crate::page::{BITS, Frame, Page, Pages, Protection};

/// Number of entries of the direct-mapped TLB, which is indexed by the low bits of the page number.
const ENTRIES: usize = 256;

/// Number of entries of the page-walk cache.
const TABLES: usize = 64;

/// If a flush covers more pages than this, it drops all translations of the space, which is faster than one
/// lookup per page.
const ONE_BY_ONE: u64 = 64;

/// A cached translation of a page.
#[derive(Debug, Clone, Copy)]
pub(super) struct Translation {
    /// The address-space identifier: the number of the space whose tables the walk went through.
    pub(super) space: u64,
    pub(super) page: Page,
    pub(super) frame: Frame,
    pub(super) protection: Protection,
    /// The entry matches in all spaces.
    pub(super) is_global: bool,
    /// The frame's generation when the translation was cached.
    pub(super) generation: u64,
    /// The level of the table that contains the entry: 0, or more for a part of a large page.
    pub(super) level: u8,
}

impl Translation {
    /// Whether the translations belong to pages that have different sizes and overlap.
    fn conflicts(self, other: Translation) -> bool {
        let shift = BITS * u32::from(self.level.max(other.level));
        self.level != other.level
            && self.space == other.space
            && self.page.0 >> shift == other.page.0 >> shift
            && ![self.protection, other.protection].contains(&Protection::NONE)
    }

    /// A cached absent entry, which allows no access.
    pub(super) const fn absent(space: u64, page: Page) -> Translation {
        let (frame, protection) = (Frame(0), Protection::NONE);
        Translation { space, page, frame, protection, is_global: false, generation: 0, level: 0 }
    }
}

/// An unused slot: no space has number 0.
const EMPTY: Translation = Translation::absent(0, Page(0));

/// A cached non-leaf entry. It covers `1 << 9 * level` pages, starting with page `index << 9 * level`.
#[derive(Debug, Clone, Copy)]
pub(super) struct CachedTable {
    pub(super) space: u64,
    pub(super) level: u8,
    pub(super) index: u64,
    /// The table that the entry points to, and the generation of the table's frame when the entry was cached;
    /// `None` for an absent entry.
    pub(super) table: Option<(Frame, u64)>,
}

/// An unused slot: no space has number 0.
const NO_TABLE: CachedTable = CachedTable { space: 0, level: 0, index: 0, table: None };

impl CachedTable {
    fn pages(&self) -> Pages {
        let shift = BITS * u32::from(self.level);
        Pages::new(Page(self.index << shift), 1 << shift)
    }
}

/// A translation lookaside buffer and a page-walk cache.
#[derive(Debug)]
pub(super) struct Tlb {
    pages: Box<[Cell<Translation>]>,
    /// Whether any part of a large page was ever cached.
    has_large: Cell<bool>,
    tables: Box<[Cell<CachedTable>]>,
}

impl Default for Tlb {
    fn default() -> Tlb {
        Tlb {
            pages: vec![Cell::new(EMPTY); ENTRIES].into(),
            has_large: Cell::new(false),
            tables: vec![Cell::new(NO_TABLE); TABLES].into(),
        }
    }
}

impl Tlb {
    fn entry(&self, page: Page) -> &Cell<Translation> {
        &self.pages[page.0 as usize % ENTRIES]
    }

    fn table_entry(&self, level: u8, index: u64) -> &Cell<CachedTable> {
        // With this index, neighbouring entries of a level do not evict each other, and the entries of one
        // walk seldom do.
        &self.tables[(index as usize + 16 * usize::from(level)) % TABLES]
    }

    /// Returns the lowest cached non-leaf entry that covers `page`.
    pub(super) fn find_table(&self, space: u64, page: Page, levels: u8) -> Option<CachedTable> {
        (1..levels).find_map(|level| {
            let index = page.0 >> (BITS * u32::from(level));
            let cached = self.table_entry(level, index).get();
            let is_it = (cached.space, cached.level, cached.index) == (space, level, index);
            is_it.then_some(cached)
        })
    }

    pub(super) fn insert_table(&self, cached: CachedTable) {
        self.table_entry(cached.level, cached.index).set(cached);
    }

    /// Looks up a translation.
    ///
    /// # Panics
    /// If the TLB holds another space's global translation of the page: real hardware would use it.
    #[inline]
    pub(super) fn find(&self, space: u64, page: Page) -> Option<Translation> {
        let cached = self.entry(page).get();
        if cached.space == space && cached.page == page {
            return Some(cached);
        }
        let other = cached.space;
        let is_hit = cached.is_global && cached.page == page;
        assert!(
            !is_hit,
            "space {space} uses the global translation of page {page:#x} of space {other}"
        );
        None
    }

    /// # Panics
    /// If the TLB has a translation of an overlapping page of another size. Real CPUs fail as well: AArch64
    /// raises a TLB conflict abort ("Architecture Reference Manual", D8.16), and some x86-64 processors raise
    /// a machine check (Intel's erratum "iTLB multihit").
    pub(super) fn insert(&self, translation: Translation) {
        self.has_large.set(self.has_large.get() || translation.level > 0);
        if self.has_large.get() {
            let other =
                self.pages.iter().map(Cell::get).find(|cached| cached.conflicts(translation));
            if let Some(other) = other {
                panic!("the TLB caches {translation:?} beside {other:?}");
            }
        }
        self.entry(translation.page).set(translation);
    }

    pub(super) fn flush(&self, space: u64, what: Flush) {
        match what {
            Flush::Range(pages) | Flush::Tables(pages) if pages.count() <= ONE_BY_ONE => {
                for page in pages.iter() {
                    let entry = self.entry(page);
                    if (entry.get().space, entry.get().page) == (space, page) {
                        entry.set(EMPTY);
                    }
                }
            }
            _ => self.pages.iter().filter(|entry| entry.get().space == space).for_each(|entry| {
                entry.set(EMPTY);
            }),
        }
        let is_flushed = |cached: CachedTable| match what {
            Flush::Range(_) => false,
            Flush::Tables(pages) => cached.pages().overlaps(pages),
            Flush::All => true,
        };
        if !matches!(what, Flush::Range(_)) {
            for entry in &self.tables {
                if entry.get().space == space && is_flushed(entry.get()) {
                    entry.set(NO_TABLE);
                }
            }
        }
    }

    pub(super) fn flush_all(&self) {
        self.pages.iter().for_each(|entry| entry.set(EMPTY));
        self.tables.iter().for_each(|entry| entry.set(NO_TABLE));
    }
}
