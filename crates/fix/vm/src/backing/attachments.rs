//! Where an object is mapped.
//!
//! One *attachment* for each mapping, not for each page of it: which page of which space has the object's
//! page `n` is computed, and whoever wants to know looks there, as it may not be present or be another by
//! now (DragonFly 2019, `vm_map_backing`; Linux' `i_mmap`).
//!
//! Attachments are in *shards*, one for each CPU up to a number: those that map the same object on different
//! CPUs share nothing. In a shard they are in a treap by their first page that knows the last page of each
//! subtree (Seidel and Aragon, "Randomized search trees", 1996; interval trees as in Cormen et al., 14.3), so
//! that who looks for one page does not see those that map other parts. It is made of the attachments
//! themselves and allocates nothing.

use alloc::boxed::Box;
use core::cell::{Cell, UnsafeCell};
use core::ops::Range;
use core::ptr::NonNull;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicBool, AtomicU64};

use knee_sync::Platform;
use knee_sync::shim::{Padded, is_mutant};

use crate::error::OutOfMemory;
use crate::machine::Machine;
use crate::page::Pages;
use crate::per_cpu::for_each;
use crate::tree::Tree;

/// Who visits all begins anew so often for copies that have come meanwhile, and then they wait.
const PASSES: u32 = 4;

/// More shards than this make a walk longer and little else better.
const MOST_SHARDS: usize = 16;

/// Pages of an object that are mapped together.
#[derive(Debug)]
pub(crate) struct Attachment {
    /// Of the object.
    indexes: Range<u64>,
    /// Where the first of them is.
    page: u64,
    tree: NonNull<Tree>,
    shard: Cell<usize>,
    links: UnsafeCell<Links>,
}

type Link = Option<NonNull<Attachment>>;

/// Under the lock of the shard.
#[derive(Debug, Default)]
struct Links {
    left: Link,
    right: Link,
    /// The greatest end of those below and its own.
    end: u64,
}

/// Where an object is mapped.
#[derive(Debug)]
pub(crate) struct Attachments {
    shards: Box<[Padded<Shard>]>,
    /// Nobody has the object for itself any more: it lives as long as it is mapped.
    is_closed: AtomicBool,
    /// Shards that hold the object, and others that do.
    holders: AtomicU64,
    /// Somebody visits all, and copies that come would have him begin anew.
    forks_throttled: AtomicBool,
}

#[derive(Debug, Default)]
struct Shard {
    is_locked: AtomicBool,
    content: UnsafeCell<Content>,
}

// SAFETY: the content is used under the lock.
unsafe impl Sync for Shard {}
// SAFETY: as above.
unsafe impl Send for Shard {}

#[derive(Debug, Default)]
struct Content {
    root: Link,
    /// How many there ever were that have [copies](Attachments::attach): who has visited all knows
    /// whether more have come.
    copies: u64,
    /// The shard counts as a holder. It stays one when it is empty, so that to map and unmap does not
    /// write to the line of all, until the object is closed.
    holds: bool,
}

/// An attachment that was found, whose tree is there as long as this.
pub(crate) struct Visit<'m, M: Machine> {
    machine: &'m M,
    tree: NonNull<Tree>,
    indexes: Range<u64>,
    page: u64,
    /// It may be gone by now.
    attachment: NonNull<Attachment>,
}

impl<M: Machine> Visit<'_, M> {
    /// Whether it has found this one.
    pub(crate) fn is(&self, attachment: NonNull<Attachment>) -> bool {
        self.attachment == attachment
    }

    pub(crate) fn tree(&self) -> &Tree {
        // SAFETY: we are a user.
        unsafe { self.tree.as_ref() }
    }

    /// Where those of these pages are that are mapped.
    pub(crate) fn pages(&self, indexes: &Range<u64>) -> Pages {
        let (start, end) =
            (indexes.start.max(self.indexes.start), indexes.end.min(self.indexes.end));
        let page = |index| self.page + (index - self.indexes.start);
        Pages { start: page(start), end: page(end.max(start)) }
    }

    /// The object's page that is mapped there.
    pub(crate) fn index(&self, page: u64) -> u64 {
        self.indexes.start + (page - self.page)
    }
}

impl<M: Machine> Drop for Visit<'_, M> {
    fn drop(&mut self) {
        // SAFETY: we are a user. That no CPU goes to its pages when its space has left is the space's promise.
        unsafe { Tree::put_ref(self.tree, self.machine) };
    }
}

impl Attachment {
    /// Pages of an object from `first` on, mapped at these pages of a space.
    pub(crate) fn new(pages: Pages, first: u64, tree: NonNull<Tree>) -> Attachment {
        let indexes = first..first + pages.count();
        let links = Links { end: indexes.end, ..Links::default() };
        Attachment {
            indexes,
            page: pages.start,
            tree,
            shard: Cell::new(0),
            links: UnsafeCell::new(links),
        }
    }

    /// Where it is.
    pub(crate) fn pages(&self) -> Pages {
        Pages::new(self.page, self.indexes.end - self.indexes.start)
    }

    /// The object's page that is mapped there.
    #[inline]
    pub(crate) fn index(&self, page: u64) -> u64 {
        self.indexes.start + (page - self.page)
    }
}

/// The order in a shard: by first page, and then in any order that is always the same.
type Key = (u64, usize);

fn key(attachment: NonNull<Attachment>) -> Key {
    // SAFETY: it is in a shard whose lock the caller has.
    (unsafe { attachment.as_ref() }.indexes.start, attachment.as_ptr().addr())
}

/// What nobody knows beforehand: the finalizer of MurmurHash3.
fn priority(attachment: NonNull<Attachment>) -> u64 {
    let mut hash = attachment.as_ptr().addr() as u64;
    hash = (hash ^ hash >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash = (hash ^ hash >> 33).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    hash ^ hash >> 33
}

/// # Safety
/// The attachment is in a shard whose lock the caller has, or nobody else's; the reference is gone before the
/// next for the same one.
unsafe fn links<'a>(attachment: NonNull<Attachment>) -> &'a mut Links {
    // SAFETY: said by the caller.
    unsafe { &mut *attachment.as_ref().links.get() }
}

/// # Safety
/// As of [`links`], for all below; as with the functions that follow.
unsafe fn end(link: Link) -> u64 {
    // SAFETY: said by the caller.
    link.map_or(0, |attachment| unsafe { links(attachment) }.end)
}

/// Sets children, and the end that follows.
unsafe fn join(root: NonNull<Attachment>, left: Link, right: Link) -> Link {
    // SAFETY: said by the caller.
    unsafe {
        let end = root.as_ref().indexes.end.max(end(left)).max(end(right));
        *links(root) = Links { left, right, end };
    }
    Some(root)
}

/// Those before a key, and the others.
unsafe fn split(link: Link, at: Key) -> (Link, Link) {
    let Some(root) = link else { return (None, None) };
    // SAFETY: said by the caller.
    unsafe {
        let &mut Links { left, right, .. } = links(root);
        if key(root) < at {
            let (before, after) = split(right, at);
            (join(root, left, before), after)
        } else {
            let (before, after) = split(left, at);
            (before, join(root, after, right))
        }
    }
}

/// Those of both, where all of `left` are before those of `right`.
unsafe fn merge(left: Link, right: Link) -> Link {
    let (Some(first), Some(second)) = (left, right) else { return left.or(right) };
    // SAFETY: said by the caller.
    unsafe {
        if priority(first) > priority(second) {
            let &mut Links { left, right: inner, .. } = links(first);
            join(first, left, merge(inner, right))
        } else {
            let &mut Links { left: inner, right, .. } = links(second);
            join(second, merge(left, inner), right)
        }
    }
}

unsafe fn insert(link: Link, new: NonNull<Attachment>) -> Link {
    // SAFETY: said by the caller.
    unsafe {
        let Some(root) = link.filter(|&root| priority(root) >= priority(new)) else {
            let (left, right) = split(link, key(new));
            return join(new, left, right);
        };
        let &mut Links { left, right, .. } = links(root);
        match key(new) < key(root) {
            true => join(root, insert(left, new), right),
            false => join(root, left, insert(right, new)),
        }
    }
}

unsafe fn remove(link: Link, old: NonNull<Attachment>) -> Link {
    let root = link.expect("it is in here");
    // SAFETY: said by the caller.
    unsafe {
        let &mut Links { left, right, .. } = links(root);
        if root == old {
            return merge(left, right);
        }
        match key(old) < key(root) {
            true => join(root, remove(left, old), right),
            false => join(root, left, remove(right, old)),
        }
    }
}

/// The first after a key that has any of these pages.
unsafe fn find_after(link: Link, after: Option<Key>, indexes: &Range<u64>) -> Link {
    let root = link?;
    // SAFETY: said by the caller.
    unsafe {
        if links(root).end <= indexes.start {
            return None;
        }
        let &mut Links { left, right, .. } = links(root);
        let is_after = after.is_none_or(|after| key(root) > after);
        if is_after && let Some(found) = find_after(left, after, indexes) {
            return Some(found);
        }
        let own = &root.as_ref().indexes;
        if own.start >= indexes.end {
            return None;
        }
        if is_after && own.end > indexes.start {
            return Some(root);
        }
        find_after(right, after, indexes)
    }
}

impl Shard {
    fn with<R>(&self, platform: &impl Platform, with: impl FnOnce(&mut Content) -> R) -> R {
        platform.wait_while(|| self.is_locked.swap(true, Acquire));
        // SAFETY: it is locked.
        let result = with(unsafe { &mut *self.content.get() });
        self.is_locked.store(false, Release);
        result
    }
}

impl Attachments {
    /// None, with the caller as the only holder.
    pub(crate) fn new(cpus: usize) -> Result<Attachments, OutOfMemory> {
        let shards = for_each(cpus.min(MOST_SHARDS))?;
        let [is_closed, forks_throttled] = [false; 2].map(AtomicBool::new);
        Ok(Attachments { shards, is_closed, holders: AtomicU64::new(1), forks_throttled })
    }

    /// Adds one, in the shard of this CPU. Its entries may be copies of those of another one, if it says so,
    /// which are made afterwards.
    ///
    /// # Safety
    /// It stays where it is until it is [detached](Attachments::detach), and its tree has a user as long.
    /// The caller holds the object, or has one attached.
    pub(crate) unsafe fn attach(
        &self,
        cpu: usize,
        platform: &impl Platform,
        new: NonNull<Attachment>,
        is_copy: bool,
    ) {
        let shard = cpu % self.shards.len();
        // SAFETY: nobody else knows it yet.
        unsafe { new.as_ref() }.shard.set(shard);
        self.shards[shard].0.with(platform, |content| {
            // SAFETY: the lock is ours, and all that is in here stays until it is detached.
            content.root = unsafe { insert(content.root, new) };
            content.copies += u64::from(is_copy);
            if !content.holds {
                content.holds = true;
                self.get_ref();
            }
        });
    }

    /// Takes one out, which is the caller's again. Whether nobody holds the object any more: the caller has
    /// to free it then.
    ///
    /// # Safety
    /// It was attached here, and not detached since.
    #[must_use]
    pub(crate) unsafe fn detach(&self, old: NonNull<Attachment>, platform: &impl Platform) -> bool {
        // SAFETY: said by the caller.
        let shard = unsafe { old.as_ref() }.shard.get();
        let lets_go = self.shards[shard].0.with(platform, |content| {
            // SAFETY: the lock is ours, and it is in here.
            content.root = unsafe { remove(content.root, old) };
            // Acquire, and as `close` comes to the lock afterwards: one of us sees the other.
            let lets_go = content.root.is_none() && self.is_closed.load(Acquire);
            content.holds &= !lets_go;
            lets_go
        });
        lets_go && self.put_refs(1)
    }

    /// The object lives as long as it is mapped, from now on. As with [`detach`](Attachments::detach).
    #[must_use]
    pub(crate) fn close(&self, platform: &impl Platform) -> bool {
        self.is_closed.store(true, Release);
        let mut count = 1;
        for shard in &self.shards {
            shard.0.with(platform, |content| {
                if content.root.is_none() && content.holds {
                    content.holds = false;
                    count += 1;
                }
            });
        }
        self.put_refs(count)
    }

    /// Another holder has come.
    pub(crate) fn get_ref(&self) {
        self.holders.fetch_add(1, Relaxed);
    }

    /// So many are none any more. As with [`detach`](Attachments::detach).
    #[must_use]
    pub(crate) fn put_refs(&self, count: u64) -> bool {
        self.holders.fetch_sub(count, AcqRel) == count
    }

    /// Calls `visit` with each attachment that has any of these pages, without locks: with some more than
    /// once, as it begins anew when copies have come meanwhile.
    ///
    /// So who has seen to it that a page gets no new entries, but for copies of those that there are, and
    /// removes what it finds, has removed all at the end: copies are attached before they are made. By one at a
    /// time.
    pub(crate) fn visit_all<'m, M: Machine>(
        &self,
        machine: &'m M,
        indexes: &Range<u64>,
        mut visit: impl FnMut(Visit<'m, M>),
    ) {
        let mut before = self.copies(machine);
        for pass in 1.. {
            self.visit_once(machine, indexes, &mut visit);
            let after = self.copies(machine);
            if before == after || is_mutant!("visits_once") {
                break;
            }
            before = after;
            if pass == PASSES {
                self.forks_throttled.store(true, Relaxed);
            }
        }
        self.forks_throttled.store(false, Relaxed);
    }

    /// Whether who attaches copies is to wait, without locks: somebody has begun anew for others too often.
    /// Those that have not seen it are as many as there are CPUs, at most.
    pub(crate) fn forks_throttled(&self) -> bool {
        self.forks_throttled.load(Relaxed) && !is_mutant!("forks_for_ever")
    }

    fn copies<M: Machine>(&self, machine: &M) -> u64 {
        let platform = machine.epoch().platform();
        self.shards.iter().map(|shard| shard.0.with(platform, |content| content.copies)).sum()
    }

    /// Calls `visit` with each attachment that has any of these pages, without locks.
    pub(crate) fn visit_once<'m, M: Machine>(
        &self,
        machine: &'m M,
        indexes: &Range<u64>,
        mut visit: impl FnMut(Visit<'m, M>),
    ) {
        for shard in &self.shards {
            let mut last = None;
            loop {
                let found = shard.0.with(machine.epoch().platform(), |content| {
                    // SAFETY: the lock is ours.
                    let found = unsafe { find_after(content.root, last, indexes) }?;
                    last = Some(key(found));
                    // SAFETY: it is in here. Its tree has a user.
                    unsafe {
                        let Attachment { ref indexes, page, tree, .. } = *found.as_ref();
                        tree.as_ref().get_ref();
                        let indexes = indexes.clone();
                        Some(Visit { machine, tree, indexes, page, attachment: found })
                    }
                });
                match found {
                    Some(found) => visit(found),
                    None => break,
                }
            }
        }
    }
}

#[cfg(all(test, feature = "std", not(loom)))]
mod tests {
    use super::*;

    use proptest::prelude::*;

    use crate::hosted::Hosted;
    use crate::space::Space;

    proptest! {
        #[test]
        fn those_are_visited_that_have_any_of_the_pages(
            changes in prop::collection::vec((0_usize..4, 0_u64..100, 1_u64..30, 0_usize..40), 1..120),
            start in 0_u64..130,
            count in 0_u64..40,
        ) {
            let machine = Hosted::new(64, 1);
            let space = Space::new(&machine.cpu(0)).unwrap();
            let platform = machine.epoch().platform();
            let attachments = Attachments::new(4).unwrap();
            let mut all: Vec<NonNull<Attachment>> = Vec::new();
            let wanted = start..start + count;
            for (cpu, first, pages, old) in changes {
                if old < all.len() {
                    let old = all.swap_remove(old);
                    // SAFETY: it is attached.
                    let is_last = unsafe { attachments.detach(old, platform) };
                    prop_assert!(!is_last, "we hold it");
                    // SAFETY: it came from a box.
                    drop(unsafe { Box::from_raw(old.as_ptr()) });
                } else {
                    let tree = NonNull::from(space.tree());
                    let new = Attachment::new(Pages::new(1000, pages), first, tree);
                    let new = NonNull::from(Box::leak(Box::new(new)));
                    all.push(new);
                    // SAFETY: it is freed when it is detached.
                    unsafe { attachments.attach(cpu, platform, new, false) };
                }
                let mut found = Vec::new();
                attachments.visit_all(&machine, &wanted, |visit| found.push(visit.attachment));
                let has_any = |attachment: &NonNull<Attachment>| {
                    // SAFETY: it is attached.
                    let indexes = &unsafe { attachment.as_ref() }.indexes;
                    indexes.start < wanted.end && wanted.start < indexes.end
                };
                let mut expected: Vec<_> = all.iter().copied().filter(has_any).collect();
                expected.sort();
                found.sort();
                prop_assert_eq!(found, expected);
            }
            prop_assert!(!attachments.close(platform) || all.is_empty());
            while let Some(old) = all.pop() {
                // SAFETY: it is attached, and came from a box.
                unsafe {
                    prop_assert_eq!(attachments.detach(old, platform), all.is_empty());
                    drop(Box::from_raw(old.as_ptr()));
                }
            }
        }
    }
}
