//! Sorted lists of mapped runs of pages.

use alloc::collections::TryReserveError;
use alloc::vec::Vec;

use crate::page::Pages;
use crate::tree::attributes::Attributes;

/// A run of pages with the same attributes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Extent {
    pub(crate) pages: Pages,
    pub(crate) attributes: Attributes,
}

/// Extents in page order, without overlaps. Adjacent extents differ in their attributes. An operation that
/// changes the extents of a branch works on a copy of this type.
#[derive(Debug, Default)]
pub(crate) struct Extents(Vec<Extent>);

impl Extents {
    /// Reserves capacity for `room` extents in total.
    pub(crate) fn make_room(&mut self, room: usize) -> Result<(), TryReserveError> {
        self.0.try_reserve(room.saturating_sub(self.0.len()))
    }

    /// The capacity.
    pub(crate) fn room(&self) -> usize {
        self.0.capacity()
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Replaces the content with `others`, which must fit in the capacity.
    pub(crate) fn copy(&mut self, others: impl ExactSizeIterator<Item = Extent>) {
        debug_assert!(self.room() >= others.len());
        self.0.clear();
        self.0.extend(others);
    }

    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = Extent> + '_ {
        self.0.iter().copied()
    }

    /// The first extent that overlaps `pages`.
    pub(crate) fn first_of(&self, pages: Pages) -> Option<Extent> {
        let (first, after) = self.places(pages);
        self.0[first..after].first().copied()
    }

    /// The index of the first extent that overlaps `pages`, and the index after the last such extent.
    fn places(&self, pages: Pages) -> (usize, usize) {
        let first = self.0.partition_point(|extent| extent.pages.end <= pages.start);
        let count = self.0[first..].partition_point(|extent| extent.pages.start < pages.end);
        (first, first + count)
    }

    /// Sets the attributes of `pages`, or unmaps the pages if `attributes` is `None`. The caller must have
    /// reserved room for two more extents, because a change inside an extent splits it into three.
    pub(crate) fn set(&mut self, pages: Pages, attributes: Option<Attributes>) {
        let (mut first, mut after) = self.places(pages);
        let same = |extent: &&Extent| Some(extent.attributes) == attributes;
        // `left` and `right` are the parts of overlapping extents that lie before and after `pages`. A
        // neighbour with the same attributes is merged into `new`.
        let mut new = pages;
        let mut left = self.0.get(first).filter(|_| first < after).copied();
        left = left.filter(|extent| extent.pages.start < pages.start);
        if let Some(extent) = left.filter(|extent| same(&extent)) {
            new.start = extent.pages.start;
            left = None;
        } else if left.is_none()
            && let Some(before) = first.checked_sub(1)
            && let Some(extent) = self.0.get(before).filter(same)
            && extent.pages.end == pages.start
        {
            new.start = extent.pages.start;
            first = before;
        }
        let mut right = self.0[first..after].last().copied();
        right = right.filter(|extent| extent.pages.end > pages.end);
        if let Some(extent) = right.filter(|extent| same(&extent)) {
            new.end = extent.pages.end;
            right = None;
        } else if right.is_none()
            && let Some(extent) = self.0.get(after).filter(same)
            && extent.pages.start == pages.end
        {
            new.end = extent.pages.end;
            after += 1;
        }
        let left = left.map(|Extent { pages: of, attributes }| Extent {
            pages: Pages { start: of.start, end: pages.start },
            attributes,
        });
        let right = right.map(|Extent { pages: of, attributes }| Extent {
            pages: Pages { start: pages.end, end: of.end },
            attributes,
        });
        let middle = attributes.map(|attributes| Extent { pages: new, attributes });
        self.replace(first, after, [left, middle, right]);
    }

    /// Replaces the extents `first..after` with `new`.
    fn replace(&mut self, first: usize, after: usize, new: [Option<Extent>; 3]) {
        let mut place = first;
        for extent in new.into_iter().flatten() {
            if place < after {
                self.0[place] = extent;
            } else {
                debug_assert!(self.0.len() < self.0.capacity(), "the caller has reserved room");
                self.0.insert(place, extent);
            }
            place += 1;
        }
        if place < after {
            self.0.drain(place..after);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use crate::page::{Page, Protection};

    fn attributes() -> impl Strategy<Value = Option<Attributes>> {
        prop_oneof![
            Just(None),
            Just(Some(Attributes::anonymous(Protection::READ))),
            Just(Some(Attributes::anonymous(Protection::READ | Protection::WRITE))),
        ]
    }

    proptest! {
        #[test]
        fn extents_agree_with_a_map_of_pages(
            changes in prop::collection::vec((0_u64..40, 1_u64..12, attributes()), 1..60)
        ) {
            let mut extents = Extents::default();
            extents.make_room(200).unwrap();
            let mut map = BTreeMap::new();
            for (start, count, attributes) in changes {
                let pages = Pages::new(Page(start), count);
                extents.set(pages, attributes);
                for page in pages.iter() {
                    match attributes {
                        Some(attributes) => map.insert(page, attributes),
                        None => map.remove(&page),
                    };
                }
                for page in Pages::new(Page(0), 60).iter() {
                    let found = extents.first_of(Pages::new(page, 1)).map(|extent| extent.attributes);
                    prop_assert_eq!(found, map.get(&page).copied());
                }
                for pair in extents.0.windows(2) {
                    prop_assert!(pair[0].pages.end <= pair[1].pages.start);
                    let differ = pair[0].attributes != pair[1].attributes;
                    prop_assert!(differ || pair[0].pages.end < pair[1].pages.start);
                }
                prop_assert!(extents.iter().all(|extent| !extent.pages.is_empty()));
                prop_assert_eq!(extents.first_of(pages).is_none(), attributes.is_none());
            }
        }
    }
}
