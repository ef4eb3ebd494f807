//! A cache of the page at which the search for a gap begins.

use knee_vm::{Page, Pages};

/// The invariant: there is no gap of more than `hole` pages before `from`. The fields correspond to
/// `free_area_cache` and `cached_hole_size` in Linux until 3.8, when its trees began to record gaps.
#[derive(Debug, Default)]
pub(super) struct GapCache {
    from: Page,
    hole: u64,
}

impl GapCache {
    /// Records an unmap, after which the unmapped pages are part of a gap that begins at `start`.
    pub(super) fn unmapped(&mut self, start: Page) {
        self.from = self.from.min(start);
    }

    /// Returns the start of the first gap of `count` pages in this range. `entries(page, with)` must pass the
    /// entries to `with` in order, starting with the last entry that begins before `page`, until `with`
    /// returns false.
    pub(super) fn find(
        &mut self,
        pages: Pages,
        count: u64,
        entries: impl Fn(Page, &mut dyn FnMut(Pages) -> bool),
    ) -> Option<Page> {
        if count <= self.hole || self.from < pages.start {
            (self.from, self.hole) = (pages.start, 0);
        }
        let (mut at, mut hole) = (self.from, self.hole);
        entries(at, &mut |of| {
            let gap = Pages { start: at, end: of.start }.count();
            if gap >= count {
                return false;
            }
            (at, hole) = (at.max(of.end), hole.max(gap));
            true
        });
        let rest = Pages { start: at, ..pages };
        if count > rest.count() {
            return None;
        }
        (self.from, self.hole) = (at + count, hole);
        Some(at)
    }
}
