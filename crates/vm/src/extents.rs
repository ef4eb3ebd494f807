//! What is mapped where, in runs.

use alloc::boxed::Box;
use alloc::collections::TryReserveError;
use alloc::vec::Vec;
use core::cell::UnsafeCell;
use core::ptr::NonNull;

use knee_sync::epoch::Entry;

use crate::attributes::Attributes;
use crate::page::Pages;

/// Pages with the same attributes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Extent {
    pub(crate) pages: Pages,
    pub(crate) attributes: Attributes,
}

/// Extents in the order of their pages. None overlap, and neighbours differ.
#[derive(Debug, Default)]
#[repr(C)]
pub(crate) struct Extents {
    /// First, so that its address is that of the list. A cell, as others may read the list when it
    /// begins to wait.
    retired: UnsafeCell<Entry>,
    list: Vec<Extent>,
}

impl Extents {
    /// None, with room for this many.
    pub(crate) fn with_room(room: usize) -> Result<Extents, TryReserveError> {
        let mut list = Vec::new();
        list.try_reserve_exact(room)?;
        Ok(Extents { retired: UnsafeCell::new(Entry::new()), list })
    }

    /// What has a list wait for the end of an epoch, without an allocation.
    pub(crate) fn entry(list: NonNull<Extents>) -> NonNull<Entry> {
        list.cast()
    }

    /// Frees a list whose epoch is over.
    ///
    /// # Safety
    /// It is the [`entry`](Extents::entry) of one that came from a box and that nobody finds any more.
    pub(crate) unsafe fn free(entry: NonNull<Entry>) {
        // SAFETY: said by the caller; the entry is the first field.
        drop(unsafe { Box::from_raw(entry.cast::<Extents>().as_ptr()) });
    }

    /// How many more can be added without an allocation.
    pub(crate) fn room(&self) -> usize {
        self.list.capacity() - self.list.len()
    }

    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    pub(crate) fn clear(&mut self) {
        self.list.clear();
    }

    /// Makes these the same as `others`, for which there is room.
    pub(crate) fn copy(&mut self, others: &Extents) {
        debug_assert!(self.list.capacity() >= others.len());
        self.list.clear();
        self.list.extend_from_slice(&others.list);
    }

    /// All of them.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Extent> {
        self.list.iter()
    }

    /// Whether none has any other page.
    pub(crate) fn are_in(&self, pages: Pages) -> bool {
        match &self.list[..] {
            [] => true,
            [first, ..] if first.pages.start < pages.start => false,
            [.., last] => last.pages.end <= pages.end,
        }
    }

    /// Changes the attributes of all. Those that differ have to differ afterwards.
    pub(crate) fn change(&mut self, change: impl Fn(Attributes) -> Attributes) {
        self.list.iter_mut().for_each(|extent| extent.attributes = change(extent.attributes));
    }

    /// What the page is in.
    pub(crate) fn find(&self, page: u64) -> Option<Attributes> {
        let after = self.list.partition_point(|extent| extent.pages.end <= page);
        self.list
            .get(after)
            .filter(|extent| extent.pages.contains(page))
            .map(|found| found.attributes)
    }

    /// Those that have any of these pages.
    pub(crate) fn overlapping(&self, pages: Pages) -> &[Extent] {
        let (first, after) = self.places(pages);
        &self.list[first..after]
    }

    /// The first that has any of these pages, and the one after the last.
    fn places(&self, pages: Pages) -> (usize, usize) {
        let first = self.list.partition_point(|extent| extent.pages.end <= pages.start);
        let count = self.list[first..].partition_point(|extent| extent.pages.start < pages.end);
        (first, first + count)
    }

    /// Gives these pages other attributes, or none. There is room for two more.
    pub(crate) fn set(&mut self, pages: Pages, attributes: Option<Attributes>) {
        let (mut first, mut after) = self.places(pages);
        let same = |extent: &&Extent| Some(extent.attributes) == attributes;
        // What remains of the outermost. A neighbour with the same attributes becomes part of the new.
        let mut new = pages;
        let mut left = self.list.get(first).filter(|_| first < after).copied();
        left = left.filter(|extent| extent.pages.start < pages.start);
        if let Some(extent) = left.filter(|extent| same(&extent)) {
            new.start = extent.pages.start;
            left = None;
        } else if left.is_none()
            && let Some(before) = first.checked_sub(1)
            && let Some(extent) = self.list.get(before).filter(same)
            && extent.pages.end == pages.start
        {
            new.start = extent.pages.start;
            first = before;
        }
        let mut right = self.list[first..after].last().copied();
        right = right.filter(|extent| extent.pages.end > pages.end);
        if let Some(extent) = right.filter(|extent| same(&extent)) {
            new.end = extent.pages.end;
            right = None;
        } else if right.is_none()
            && let Some(extent) = self.list.get(after).filter(same)
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

    /// Puts `new` where those from `first` on and before `after` are.
    fn replace(&mut self, first: usize, after: usize, new: [Option<Extent>; 3]) {
        let mut place = first;
        for extent in new.into_iter().flatten() {
            if place < after {
                self.list[place] = extent;
            } else {
                debug_assert!(self.list.len() < self.list.capacity(), "there is room");
                self.list.insert(place, extent);
            }
            place += 1;
        }
        if place < after {
            self.list.drain(place..after);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use crate::page::Protection;

    fn attributes() -> impl Strategy<Value = Option<Attributes>> {
        prop_oneof![
            Just(None),
            Just(Some(Attributes::anonymous(Protection::READ))),
            Just(Some(Attributes::anonymous(Protection::READ | Protection::WRITE))),
        ]
    }

    proptest! {
        #[test]
        fn they_are_what_a_map_of_pages_is(
            changes in prop::collection::vec((0_u64..40, 1_u64..12, attributes()), 1..60)
        ) {
            let mut extents = Extents::with_room(200).unwrap();
            let mut map = BTreeMap::new();
            for (start, count, attributes) in changes {
                let pages = Pages::new(start, count);
                extents.set(pages, attributes);
                for page in pages.start..pages.end {
                    match attributes {
                        Some(attributes) => map.insert(page, attributes),
                        None => map.remove(&page),
                    };
                }
                for page in 0..60 {
                    prop_assert_eq!(extents.find(page), map.get(&page).copied());
                }
                for pair in extents.list.windows(2) {
                    prop_assert!(pair[0].pages.end <= pair[1].pages.start);
                    let differ = pair[0].attributes != pair[1].attributes;
                    prop_assert!(differ || pair[0].pages.end < pair[1].pages.start);
                }
                prop_assert!(extents.list.iter().all(|extent| !extent.pages.is_empty()));
                let overlapping = extents.overlapping(pages);
                prop_assert_eq!(overlapping.is_empty(), attributes.is_none());
            }
        }
    }
}
