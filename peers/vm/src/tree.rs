//! What kernels in Rust have: areas in a balanced tree. Neighbours that are alike become one, as in Linux.

use std::collections::BTreeMap;

use knee_vm::{Page, Pages, Protection};

/// Areas by their first page: the page after the last, and what is allowed.
#[derive(Default)]
pub(crate) struct Tree(BTreeMap<Page, (Page, Protection)>);

impl Tree {
    pub(crate) fn map(&mut self, pages: Pages, protection: Protection) {
        let before = self.0.range(..pages.end).next_back().map(|(&start, &area)| (start, area));
        let (mut start, mut end) = (pages.start, pages.end);
        if let Some((first, (after, same))) = before {
            assert!(after <= pages.start, "something is mapped there");
            if after == pages.start && same == protection {
                start = first;
            }
        }
        if let Some(&(after, same)) = self.0.get(&pages.end)
            && same == protection
        {
            self.0.remove(&pages.end);
            end = after;
        }
        self.0.insert(start, (end, protection));
    }

    pub(crate) fn unmap(&mut self, pages: Pages) {
        if let Some((_, area)) = self.0.range_mut(..pages.start).next_back()
            && area.0 > pages.start
        {
            let (end, protection) = *area;
            area.0 = pages.start;
            if end > pages.end {
                self.0.insert(pages.end, (end, protection));
                return;
            }
        }
        while let Some((&start, &(end, protection))) = self.0.range(pages.start..pages.end).next() {
            self.0.remove(&start);
            if end > pages.end {
                self.0.insert(pages.end, (end, protection));
            }
        }
    }

    pub(crate) fn find(&self, page: Page) -> Option<Protection> {
        let (_, &(end, protection)) = self.0.range(..=page).next_back()?;
        (page < end).then_some(protection)
    }
}
