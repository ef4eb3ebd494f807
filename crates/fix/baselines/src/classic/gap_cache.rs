//! Where to begin to look for room.

use knee_vm::Pages;

/// There is no gap of more than `hole` pages before `from`. Linux' `free_area_cache` and
/// `cached_hole_size`, until its trees knew their gaps in 3.8.
#[derive(Debug, Default)]
pub(super) struct GapCache {
    from: u64,
    hole: u64,
}

impl GapCache {
    /// Pages have been unmapped, and are in a gap that begins at `start`.
    pub(super) fn unmapped(&mut self, start: u64) {
        self.from = self.from.min(start);
    }

    /// The beginning of the first gap among these pages that has `count`. `entries` calls what it is given
    /// with entries in order, from the last that begins before a page on, as long as that says so.
    pub(super) fn find(
        &mut self,
        pages: Pages,
        count: u64,
        entries: impl Fn(u64, &mut dyn FnMut(Pages) -> bool),
    ) -> Option<u64> {
        if count <= self.hole || self.from < pages.start {
            (self.from, self.hole) = (pages.start, 0);
        }
        let (mut at, mut hole) = (self.from, self.hole);
        entries(at, &mut |of| {
            let gap = of.start.saturating_sub(at);
            if gap >= count {
                return false;
            }
            (at, hole) = (at.max(of.end), hole.max(gap));
            true
        });
        if count > pages.end.saturating_sub(at) {
            return None;
        }
        (self.from, self.hole) = (at + count, hole);
        Some(at)
    }
}
