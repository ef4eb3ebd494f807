//! Where to begin to look for room.

use knee_vm::{Page, Pages};

/// There is no gap of more than `hole` pages before `from`. Linux' `free_area_cache` and
/// `cached_hole_size`, until its trees knew their gaps in 3.8.
#[derive(Debug, Default)]
pub(super) struct GapCache {
    from: Page,
    hole: u64,
}

impl GapCache {
    /// Pages have been unmapped, and are in a gap that begins at `start`.
    pub(super) fn unmapped(&mut self, start: Page) {
        self.from = self.from.min(start);
    }

    /// The beginning of the first gap among these pages that has `count`. `entries` calls what it is given
    /// with entries in order, from the last that begins before a page on, as long as that says so.
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
