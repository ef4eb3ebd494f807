//! Entries of a map, and what is done with them whatever they are kept in: clipping and merging, as
//! FreeBSD's `vm_map.c` and Linux' `mm/vma.c` do it.

use knee_vm::{MapError, Page, Pages, Protection};

use super::backing::Backing;
use super::reverse::Reverse;

/// A map's entry, Linux' VMA.
#[derive(Debug)]
pub struct Entry<R: Reverse> {
    pub(super) pages: Pages,
    pub(super) protection: Protection,
    pub(super) backing: R::Backing,
}

/// Entries in the order of their pages, held for changes. None overlap.
///
/// Changes to an entry exclude faults on its pages until the map is let go of, or
/// [downgraded](Entries::downgrade).
pub trait Entries<R: Reverse> {
    /// The last that begins at this page or before.
    fn up_to(&self, page: Page) -> Option<View<'_, R>>;

    /// The first that begins at this page or after.
    fn from(&self, page: Page) -> Option<View<'_, R>>;

    /// The last that begins before this page.
    fn before(&self, page: Page) -> Option<View<'_, R>> {
        self.up_to(Page(page.0.checked_sub(1)?))
    }

    /// Adds one where none is.
    fn insert(&mut self, entry: Entry<R>);

    /// Removes the one that begins there, and returns what is behind it.
    fn remove(&mut self, start: Page) -> R::Backing;

    /// Has the one that begins at `start` end elsewhere.
    fn set_end(&mut self, start: Page, end: Page);

    /// Has the one that begins at `start` begin elsewhere.
    fn set_start(&mut self, start: Page, new: Page);

    /// Changes what may be done with the one that begins at `start`.
    fn set_protection(&mut self, start: Page, protection: Protection);

    /// The first page of the first gap of at least `count` pages among these.
    fn gap(&mut self, pages: Pages, count: u64) -> Option<Page>;

    /// Pages from `start` on have been unmapped.
    fn unmapped(&mut self, start: Page);

    /// Excludes faults on all pages.
    fn exclude_faults(&mut self);

    /// Calls `with` while others may read the map and none may change it.
    fn downgrade<T>(self, with: impl FnOnce() -> T) -> T;
}

/// An entry as it is.
#[derive(Debug)]
pub struct View<'a, R: Reverse> {
    pub(super) pages: Pages,
    pub(super) protection: Protection,
    pub(super) backing: &'a R::Backing,
}

/// Maps pages where nothing is, with their own backing unless a neighbour's does.
pub(super) fn map<R: Reverse>(
    entries: &mut impl Entries<R>,
    pages: Pages,
    protection: Protection,
    new: impl FnOnce() -> R::Backing,
) -> Result<(), MapError> {
    let right = entries.from(pages.start);
    if right.as_ref().is_some_and(|right| right.pages.start < pages.end) {
        return Err(MapError::Occupied);
    }
    let left = entries.before(pages.start);
    if left.as_ref().is_some_and(|left| left.pages.end > pages.start) {
        return Err(MapError::Occupied);
    }
    let left = left.filter(|left| left.pages.end == pages.start && left.protection == protection);
    let right = right.filter(|right| right.pages.start == pages.end);
    let right = right.filter(|right| right.protection == protection);
    if let Some(left) = left.filter(|left| left.backing.extend(pages)) {
        let start = left.pages.start;
        match right.filter(|right| left.backing.is_same(right.backing)) {
            Some(View { pages: right, .. }) => {
                entries.remove(right.start);
                entries.set_end(start, right.end);
            }
            None => entries.set_end(start, pages.end),
        }
    } else if let Some(right) = right.filter(|right| right.backing.extend(pages)) {
        let start = right.pages.start;
        entries.set_start(start, pages.start);
    } else {
        entries.insert(Entry { pages, protection, backing: new() });
    }
    Ok(())
}

/// Unmaps pages; returns how many were mapped. `end` is called with what entries had that are gone.
pub(super) fn unmap<R: Reverse>(
    entries: &mut impl Entries<R>,
    pages: Pages,
    mut end: impl FnMut(R::Backing),
) -> u64 {
    let mut count = 0;
    let left = entries.before(pages.start);
    if let Some(left) = left.filter(|left| left.pages.end > pages.start) {
        let (of, protection, backing) = (left.pages, left.protection, left.backing);
        count += of.and(pages).count();
        let after = Pages { start: pages.end, end: of.end };
        let after = (!after.is_empty()).then(|| Entry {
            pages: after,
            protection,
            backing: backing.clone(),
        });
        entries.set_end(of.start, pages.start);
        if let Some(after) = after {
            entries.insert(after);
            entries.unmapped(pages.start);
            return count;
        }
    }
    while let Some(View { pages: of, .. }) = entries.from(pages.start) {
        if of.start >= pages.end {
            break;
        }
        count += of.and(pages).count();
        if of.end > pages.end {
            entries.set_start(of.start, pages.end);
            break;
        }
        end(entries.remove(of.start));
    }
    if count > 0 {
        entries.unmapped(pages.start);
    }
    count
}

/// Changes what may be done with pages; whether all were mapped, or else nothing has changed.
pub(super) fn protect<R: Reverse>(
    entries: &mut impl Entries<R>,
    pages: Pages,
    protection: Protection,
) -> bool {
    if !is_all_mapped(entries, pages) {
        return false;
    }
    clip(entries, pages.start);
    clip(entries, pages.end);
    let mut next = pages.start;
    while next < pages.end {
        let View { pages: of, protection: old, .. } = entries.from(next).expect("it is mapped");
        if old != protection {
            entries.set_protection(of.start, protection);
        }
        next = of.end;
    }
    merge(entries, pages.start);
    let mut at = pages.start;
    while let Some(of) = entries.from(at + 1).map(|found| found.pages)
        && of.start <= pages.end
    {
        merge(entries, of.start);
        at = of.start;
    }
    true
}

fn is_all_mapped<R: Reverse>(entries: &impl Entries<R>, pages: Pages) -> bool {
    let Some(first) = entries.up_to(pages.start) else { return false };
    let mut end = first.pages.end;
    while end < pages.end && end > pages.start {
        match entries.from(end).filter(|next| next.pages.start == end) {
            Some(next) => end = next.pages.end,
            None => return false,
        }
    }
    end >= pages.end
}

/// Makes two entries of the one that goes across a page's beginning.
fn clip<R: Reverse>(entries: &mut impl Entries<R>, at: Page) {
    let Some(found) = entries.before(at) else { return };
    if found.pages.end > at {
        let start = found.pages.start;
        let (pages, protection) = (Pages { start: at, end: found.pages.end }, found.protection);
        let backing = found.backing.clone();
        entries.set_end(start, at);
        entries.insert(Entry { pages, protection, backing });
    }
}

/// Makes one entry of the two that meet at a page's beginning, if they are alike.
fn merge<R: Reverse>(entries: &mut impl Entries<R>, at: Page) -> bool {
    let Some(left) = entries.before(at) else {
        return false;
    };
    let Some(right) = entries.from(at).filter(|right| right.pages.start == at) else {
        return false;
    };
    let is_alike = left.pages.end == at
        && left.protection == right.protection
        && left.backing.is_same(right.backing);
    if is_alike {
        let (left, right) = (left.pages, right.pages);
        entries.remove(right.start);
        entries.set_end(left.start, right.end);
    }
    is_alike
}
