//! The entries of a map. The functions that clip and merge entries follow FreeBSD's `vm_map.c` and Linux's
//! `mm/vma.c`, and do not depend on the data structure that contains the entries.

use knee_vm::{MapError, Page, Pages, Protection};

use super::reverse::{Backing, Reverse};

/// A map entry: Linux's VMA.
#[derive(Debug)]
pub struct Entry<R: Reverse> {
    pub(super) pages: Pages,
    pub(super) protection: Protection,
    pub(super) backing: R::Backing,
}

/// The entries of a map that is locked for writing, ordered by page. Entries do not overlap.
///
/// Once an entry has been changed, faults on its pages are excluded until the map is unlocked or
/// [downgraded](Entries::downgrade).
pub trait Entries<R: Reverse> {
    /// Returns the last entry that begins at or before this page.
    fn up_to(&self, page: Page) -> Option<View<'_, R>>;

    /// Returns the first entry that begins at or after this page.
    fn from(&self, page: Page) -> Option<View<'_, R>>;

    /// Returns the last entry that begins before this page.
    fn before(&self, page: Page) -> Option<View<'_, R>> {
        self.up_to(Page(page.0.checked_sub(1)?))
    }

    /// Inserts an entry, which must not overlap another one.
    fn insert(&mut self, entry: Entry<R>);

    /// Removes the entry that begins at `start`, and returns its backing.
    fn remove(&mut self, start: Page) -> R::Backing;

    /// Changes the end of the entry that begins at `start`.
    fn set_end(&mut self, start: Page, end: Page);

    /// Moves the start of an entry from `start` to `new`.
    fn set_start(&mut self, start: Page, new: Page);

    /// Changes the protection of the entry that begins at `start`.
    fn set_protection(&mut self, start: Page, protection: Protection);

    /// Returns the start of the first gap of at least `count` pages in this range.
    fn gap(&mut self, pages: Pages, count: u64) -> Option<Page>;

    /// Records that a range that begins at `start` was unmapped, so that [`gap`](Entries::gap) finds it.
    fn unmapped(&mut self, start: Page);

    /// Excludes faults on all pages of the space.
    fn exclude_faults(&mut self);

    /// Turns the write lock into a read lock, and calls `with`. Meanwhile, other threads can read the map but
    /// not change it.
    fn downgrade<T>(self, with: impl FnOnce() -> T) -> T;
}

/// An entry whose backing is borrowed from the map.
#[derive(Debug)]
pub struct View<'a, R: Reverse> {
    pub(super) pages: Pages,
    pub(super) protection: Protection,
    pub(super) backing: &'a R::Backing,
}

/// Maps unmapped pages. The pages get a new backing, unless a neighbor's backing can be extended.
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

/// Unmaps pages and returns how many were mapped. Calls `end` with the backing of each removed entry.
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

/// Changes the protection of pages. If one of the pages is not mapped, changes nothing and returns false.
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
        let View { pages: of, protection: old, .. } =
            entries.from(next).expect("all pages are mapped");
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

/// If one entry contains both page `at` and the page before it, splits the entry between these pages:
/// FreeBSD's clipping.
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

/// Merges two entries, one that ends just before page `at` and one that begins at this page, if both have the
/// same protection and backing.
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
