//! The reverse mapping: where an object is mapped.
//!
//! An *attachment* describes a whole mapping, not a single page (DragonFly 2019, `vm_map_backing`; Linux's
//! `i_mmap`). From it, a caller computes at which page of the space a page of the object is mapped. The PTE
//! of that page may be absent by now, or may map another frame, so callers must check the PTE.
//!
//! The attachments of an object are divided among *shards*, one per CPU up to a limit, so that CPUs that map
//! the same object write to different cache lines. A shard is a treap ordered by first page (Seidel and
//! Aragon, "Randomized search trees", 1996). Each subtree stores the largest end of its attachments, so that
//! a lookup skips subtrees that do not overlap its range (interval trees as in Cormen et al., 14.3). The
//! treap is intrusive and allocates nothing.

use alloc::boxed::Box;
use core::cell::{Cell, UnsafeCell};
use core::ops::Range;
use core::ptr::NonNull;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use knee_sync::Platform;
use knee_sync::shim::{AtomicBool, AtomicU64, Guarded, Padded, is_mutant, order, test_and_set};

use crate::error::OutOfMemory;
use crate::machine::Machine;
use crate::page::{Page, Pages};
use crate::per_cpu::for_each;
use crate::tree::Tree;

/// After this many passes during which forks attached copies, [`Attachments::visit_all`] throttles forks.
const PASSES: u32 = 4;

/// After every `VISITS` visits of a pass, [`Attachments::visit_all`] checks whether forks have attached
/// copies, and if so throttles forks. Without this check a pass might never end: if the allocator returns
/// ascending addresses, forks attach copies ahead of the cursor.
const VISITS: usize = 32;

/// More shards than this would make walks longer and hardly reduce contention.
const MOST_SHARDS: usize = 16;

/// A run of an object's pages, mapped at consecutive pages of a space.
#[derive(Debug)]
pub(crate) struct Attachment {
    /// Pages of the object.
    indexes: Range<u64>,
    /// The page of the space at which the first of `indexes` is mapped.
    page: Page,
    tree: NonNull<Tree>,
    shard: Cell<usize>,
    links: UnsafeCell<Links>,
}

type Link = Option<NonNull<Attachment>>;

/// Links of the treap. Protected by the shard's lock.
#[derive(Debug, Default)]
struct Links {
    left: Link,
    right: Link,
    /// The largest end of an attachment in this subtree.
    end: u64,
}

/// All attachments of an object, and its reference count.
#[derive(Debug)]
pub(crate) struct Attachments {
    shards: Box<[Padded<Shard>]>,
    /// Set when the object's handle is dropped: from then on the object lives only as long as it is mapped.
    is_closed: AtomicBool,
    /// The reference count of the object: one for each shard whose `holds` is set, and one for each reference
    /// held elsewhere.
    holders: AtomicU64,
    /// Set if forks must wait until the current visit ends, because they have attached too many copies during
    /// this visit.
    forks_throttled: AtomicBool,
}

#[derive(Debug, Default)]
struct Shard {
    is_locked: AtomicBool,
    content: Guarded<Content>,
}

// SAFETY: the content is accessed only under the lock.
unsafe impl Sync for Shard {}
// SAFETY: any thread that holds the lock may use the content's attachments.
unsafe impl Send for Shard {}

#[derive(Debug, Default)]
struct Content {
    root: Link,
    /// Number of [copies](Attachments::attach) ever attached to this shard, including those detached since.
    /// A visitor compares the number before and after a pass to detect new copies.
    copies: u64,
    /// The shard has a reference to the object. An empty shard keeps this reference until the object is
    /// closed, so that mapping and unmapping do not write to the shared reference count.
    holds: bool,
}

/// An attachment that a visitor has found. Holds a reference to the attachment's tree.
pub(crate) struct Visit<'m, M: Machine> {
    machine: &'m M,
    tree: NonNull<Tree>,
    indexes: Range<u64>,
    page: Page,
    /// Only compared, never dereferenced: the attachment may have been freed by now.
    attachment: NonNull<Attachment>,
}

impl<M: Machine> Visit<'_, M> {
    /// Whether this is a visit of `attachment`.
    pub(crate) fn is(&self, attachment: NonNull<Attachment>) -> bool {
        self.attachment == attachment
    }

    pub(crate) fn tree(&self) -> &Tree {
        // SAFETY: the visit has a reference to the tree.
        unsafe { self.tree.as_ref() }
    }

    /// The pages of the space at which the attachment maps those pages of the object that are in `indexes`.
    pub(crate) fn pages(&self, indexes: &Range<u64>) -> Pages {
        let (start, end) =
            (indexes.start.max(self.indexes.start), indexes.end.min(self.indexes.end));
        let page = |index| self.page + (index - self.indexes.start);
        Pages { start: page(start), end: page(end.max(start)) }
    }

    /// The object's page that is mapped at `page`.
    pub(crate) fn index(&self, page: Page) -> u64 {
        self.indexes.start + (page - self.page)
    }
}

impl<M: Machine> Drop for Visit<'_, M> {
    fn drop(&mut self) {
        // SAFETY: the visit has a reference to the tree. The space guarantees that no CPU accesses the tree's
        // pages after the space is dropped.
        unsafe { Tree::put_ref(self.tree, self.machine) };
    }
}

impl Attachment {
    /// An attachment that maps pages of the object, starting with `first`, at `pages` of the space that
    /// owns `tree`.
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

    /// The pages of the space that the attachment covers.
    pub(crate) fn pages(&self) -> Pages {
        Pages::new(self.page, self.indexes.end - self.indexes.start)
    }

    /// The object's page that is mapped at `page`.
    #[inline]
    pub(crate) fn index(&self, page: Page) -> u64 {
        self.indexes.start + (page - self.page)
    }
}

/// The sort key of an attachment in its shard: the first page, then the address.
type Key = (u64, usize);

fn key(attachment: NonNull<Attachment>) -> Key {
    // SAFETY: the caller has locked the attachment's shard, or is about to insert the attachment.
    (unsafe { attachment.as_ref() }.indexes.start, attachment.as_ptr().addr())
}

/// A pseudo-random priority: the finalizer of MurmurHash3, applied to the address.
fn priority(attachment: NonNull<Attachment>) -> u64 {
    let mut hash = attachment.as_ptr().addr() as u64;
    hash = (hash ^ hash >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash = (hash ^ hash >> 33).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    hash ^ hash >> 33
}

/// # Safety
/// The caller must have locked the attachment's shard, or have exclusive access to the attachment. The
/// caller must not use the returned reference after it calls `links` again for the same attachment.
unsafe fn links<'a>(attachment: NonNull<Attachment>) -> &'a mut Links {
    // SAFETY: the caller has exclusive access, and uses one reference at a time.
    unsafe { &mut *attachment.as_ref().links.get() }
}

/// # Safety
/// The caller must meet the contract of [`links`] for the whole subtree. The functions below have the same
/// contract.
unsafe fn end(link: Link) -> u64 {
    // SAFETY: the caller has locked the shard, as `links` requires.
    link.map_or(0, |attachment| unsafe { links(attachment) }.end)
}

/// Sets the children of `root`, and updates the end of its subtree. Returns `root`.
unsafe fn join(root: NonNull<Attachment>, left: Link, right: Link) -> Link {
    // SAFETY: the caller has locked the shard, as `links` requires.
    unsafe {
        let end = root.as_ref().indexes.end.max(end(left)).max(end(right));
        *links(root) = Links { left, right, end };
    }
    Some(root)
}

/// Splits a treap into the keys below `at` and the remaining keys.
unsafe fn split(link: Link, at: Key) -> (Link, Link) {
    let Some(root) = link else { return (None, None) };
    // SAFETY: the caller has locked the shard, as `links` requires.
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

/// Merges two treaps. All keys of `left` must be below all keys of `right`.
unsafe fn merge(left: Link, right: Link) -> Link {
    let (Some(first), Some(second)) = (left, right) else { return left.or(right) };
    // SAFETY: the caller has locked the shard, as `links` requires.
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
    // SAFETY: the caller has locked the shard, as `links` requires.
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
    let root = link.expect("the attachment is in the treap");
    // SAFETY: the caller has locked the shard, as `links` requires.
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

/// The first attachment that overlaps `indexes` and has a key above `after`.
unsafe fn find_after(link: Link, after: Option<Key>, indexes: &Range<u64>) -> Link {
    let root = link?;
    // SAFETY: the caller has locked the shard, as `links` requires.
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
        platform.wait_while(|| test_and_set(&self.is_locked, order!(Acquire, "shard_lock")));
        // SAFETY: the lock gives exclusive access to the content.
        let result = self.content.with(|content| with(unsafe { &mut *content }));
        self.is_locked.store(false, order!(Release, "shard_unlock"));
        result
    }
}

impl Attachments {
    /// Creates an empty set. The reference count starts at 1: the caller owns the first reference to the
    /// object.
    pub(crate) fn new(cpus: usize) -> Result<Attachments, OutOfMemory> {
        let shards = for_each(cpus.min(MOST_SHARDS))?;
        let [is_closed, forks_throttled] = [false; 2].map(AtomicBool::new);
        Ok(Attachments { shards, is_closed, holders: AtomicU64::new(1), forks_throttled })
    }

    /// Adds an attachment to the shard of `cpu`. If `is_copy` is true, the new attachment is a copy of
    /// another one, and the caller must copy the PTEs only after this call.
    ///
    /// # Safety
    /// `new` must not move or be freed until it is [detached](Attachments::detach), and a reference to its
    /// tree must be held until then. The caller must have a reference to the object, or own another
    /// attachment of the object.
    pub(crate) unsafe fn attach(
        &self,
        cpu: usize,
        platform: &impl Platform,
        new: NonNull<Attachment>,
        is_copy: bool,
    ) {
        let shard = cpu % self.shards.len();
        // SAFETY: the attachment is not published yet.
        unsafe { new.as_ref() }.shard.set(shard);
        self.shards[shard].0.with(platform, |content| {
            // SAFETY: the shard is locked, and all its attachments are valid until they are detached.
            content.root = unsafe { insert(content.root, new) };
            content.copies += u64::from(is_copy);
            if !content.holds {
                content.holds = true;
                self.get_ref();
            }
        });
    }

    /// Removes an attachment, which then belongs to the caller again. Returns true if this drops the last
    /// reference to the object: the caller must then free the object.
    ///
    /// # Safety
    /// `old` must be one of these attachments.
    #[must_use]
    pub(crate) unsafe fn detach(&self, old: NonNull<Attachment>, platform: &impl Platform) -> bool {
        // SAFETY: the caller guarantees that `old` is attached, so it is valid.
        let shard = unsafe { old.as_ref() }.shard.get();
        let lets_go = self.shards[shard].0.with(platform, |content| {
            // SAFETY: the shard is locked, and `old` is in it.
            content.root = unsafe { remove(content.root, old) };
            // Relaxed: `close` sets the flag before it locks this shard. So if this load misses the flag,
            // `close` locks the shard later, and then drops the reference that the empty shard holds. If
            // this load sees the flag, this call drops the shard's reference.
            let lets_go = content.root.is_none() && self.is_closed.load(Relaxed);
            content.holds &= !lets_go;
            lets_go
        });
        lets_go && self.put_refs(1)
    }

    /// Drops the handle's reference: from now on the object lives only as long as it is mapped. Returns true,
    /// like [`detach`](Attachments::detach), if no reference is left.
    #[must_use]
    pub(crate) fn close(&self, platform: &impl Platform) -> bool {
        // Relaxed: the locks below publish the flag.
        self.is_closed.store(true, Relaxed);
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

    /// Adds a reference.
    pub(crate) fn get_ref(&self) {
        self.holders.fetch_add(1, Relaxed);
    }

    /// Drops `count` references. Returns true, like [`detach`](Attachments::detach), if no reference is left.
    #[must_use]
    pub(crate) fn put_refs(&self, count: u64) -> bool {
        self.holders.fetch_sub(count, order!(AcqRel, "holders_put")) == count
    }

    /// Calls `visit`, with no locks held, for each attachment that overlaps `indexes`. If copies were
    /// attached during a pass, there is another pass, so an attachment may be visited more than once.
    ///
    /// Use this to remove all PTEs of a page. The caller must prevent new PTEs except copies of existing
    /// PTEs, and `visit` must remove the PTEs that it finds. A copy is attached before its PTEs are made. So
    /// if a pass ends without new copies, the pass has visited every attachment that can have PTEs, and no
    /// PTE is left. At most one call may run at a time.
    pub(crate) fn visit_all<'m, M: Machine>(
        &self,
        machine: &'m M,
        indexes: &Range<u64>,
        mut visit: impl FnMut(Visit<'m, M>),
    ) {
        // Other operations read fields on the flag's cache line, so a visitor stores to the flag only if it
        // throttles forks.
        let mut throttles = false;
        let mut throttle = || {
            throttles = true;
            self.forks_throttled.store(true, Relaxed);
        };
        let mut before = self.copies(machine);
        for pass in 1.. {
            let mut visits = 0;
            self.visit_once(machine, indexes, |found| {
                visit(found);
                visits += 1;
                if visits % VISITS == 0 && self.copies(machine) != before {
                    throttle();
                }
            });
            let after = self.copies(machine);
            if before == after || is_mutant!("visits_once") {
                break;
            }
            before = after;
            // Forks have attached copies during each pass so far: make forks wait until this visit ends.
            if pass == PASSES {
                throttle();
            }
        }
        if throttles {
            self.forks_throttled.store(false, Relaxed);
        }
    }

    /// Whether a fork must release its locks and wait before it attaches copies, because forks have already
    /// attached too many during a visit. If a fork read the flag just before the visitor set it, the fork
    /// still proceeds, but there is at most one such fork on each CPU.
    pub(crate) fn forks_throttled(&self) -> bool {
        self.forks_throttled.load(Relaxed) && !is_mutant!("forks_for_ever")
    }

    fn copies<M: Machine>(&self, machine: &M) -> u64 {
        let platform = machine.epoch().platform();
        self.shards.iter().map(|shard| shard.0.with(platform, |content| content.copies)).sum()
    }

    /// Calls `visit`, with no locks held, for each attachment that overlaps `indexes`, in one pass.
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
                    // SAFETY: the shard is locked.
                    let found = unsafe { find_after(content.root, last, indexes) }?;
                    last = Some(key(found));
                    // SAFETY: the attachment is in the locked shard, so it is valid, and a reference to its
                    // tree is held.
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
        fn a_visit_finds_every_attachment_that_overlaps_the_pages(
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
                    // SAFETY: `old` is attached.
                    let is_last = unsafe { attachments.detach(old, platform) };
                    prop_assert!(!is_last, "the test has a reference");
                    // SAFETY: `old` came from a box.
                    drop(unsafe { Box::from_raw(old.as_ptr()) });
                } else {
                    let tree = NonNull::from(space.tree());
                    let new = Attachment::new(Pages::new(Page(1000), pages), first, tree);
                    let new = NonNull::from(Box::leak(Box::new(new)));
                    all.push(new);
                    // SAFETY: `new` is freed only after it is detached.
                    unsafe { attachments.attach(cpu, platform, new, false) };
                }
                let mut found = Vec::new();
                attachments.visit_all(&machine, &wanted, |visit| found.push(visit.attachment));
                let has_any = |attachment: &NonNull<Attachment>| {
                    // SAFETY: `attachment` is attached.
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
                // SAFETY: `old` is attached, and came from a box.
                unsafe {
                    prop_assert_eq!(attachments.detach(old, platform), all.is_empty());
                    drop(Box::from_raw(old.as_ptr()));
                }
            }
        }
    }
}
