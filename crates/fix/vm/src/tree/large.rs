//! The parts of a large page.
//!
//! A large page is made, unmapped and freed as a whole, without any work for each of its 512 frames. So while
//! it is whole, its leaf's table is empty, and only its first frame has metadata. An operation on a part of
//! the page first [fills](Leaf::fill) the table and the metadata. Then the large page is like any other leaf,
//! and can be split. Filling needs no memory, because each large page has a table.

use core::sync::atomic::Ordering::Relaxed;

use knee_sync::shim::is_mutant;

use crate::machine::Machine;
use crate::machine::format::{ABSENT, Entry, Format};
use crate::page::{Frame, Page, Pages};
use crate::tree::node::{Leaf, Link};

impl Leaf {
    /// The entry of a page of the span. For a part of a large page: the entry that the table would contain
    /// if it were filled. The caller must have the lock.
    pub(crate) fn entry<F: Format>(&self, page: Page) -> Entry {
        let slot = self.slot(page);
        if self.link() != Link::Large {
            let entry = self.table().map_or(ABSENT, |entries| entries[slot].load(Relaxed));
            return F::read(entry, 0);
        }
        let mut part = F::read(self.parent_entry().load(Relaxed), 1);
        match &mut part {
            Entry::Page { frame, .. } => frame.0 += slot as u64,
            _ => unreachable!("a large page with an empty table is private memory"),
        }
        part
    }

    /// The first frame of a large page of private memory, whether or not the table is filled. The caller must
    /// have the lock.
    pub(crate) fn large_frame<F: Format>(&self) -> Option<Frame> {
        let first = self.is_large().then(|| self.entry::<F>(self.span().start));
        match first {
            Some(Entry::Page { frame, .. }) => Some(frame),
            _ => None,
        }
    }

    /// The frames of the present pages among `pages`, except for device memory. The caller must have the
    /// lock.
    pub(crate) fn frames_in<F: Format>(&self, pages: Pages) -> impl Iterator<Item = Frame> {
        let large = self.large_frame::<F>().filter(|_| self.link() == Link::Large);
        let within = pages.and(self.span());
        let part = move |first: Frame| {
            within.iter().map(move |page| Frame(first.0 + self.slot(page) as u64))
        };
        let pages = if large.is_some() { Pages::new(pages.start, 0) } else { pages };
        let present = self.present_in::<F>(pages).map(|present| present.frame);
        large.into_iter().flat_map(part).chain(present)
    }

    /// Fills the table of a large page, and the metadata of its frames. The caller must have the lock.
    #[inline]
    pub(crate) fn fill<M: Machine>(&self, machine: &M) {
        if self.link() == Link::Large && !is_mutant!("splits_unfilled") {
            self.fill_table(machine);
        }
    }

    #[cold]
    fn fill_table<M: Machine>(&self, machine: &M) {
        let start = self.span().start;
        let Entry::Page { frame: first, protection, .. } = self.entry::<M::Format>(start) else {
            unreachable!("a large page with an empty table is private memory");
        };
        let (origin, page) = machine.frame_meta(first).origin();
        let entries = self.table().expect("a large page has a table");
        for (index, entry) in (0..).zip(entries) {
            let frame = Frame(first.0 + index);
            let meta = machine.frame_meta(frame);
            if !is_mutant!("fills_no_origin") || index == 0 {
                meta.set_origin(origin, page + index);
            }
            meta.set_written();
            // Relaxed: no CPU can find the table while the parent's entry is the large page.
            entry.store(M::Format::page(frame, protection), Relaxed);
        }
        self.set_filled();
    }
}
