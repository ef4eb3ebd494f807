//! Backings: each records which object provides the pages of a mapping, and where those pages are mapped.

pub(crate) mod attachments;
pub(crate) mod index;
pub(crate) mod object_core;
pub(crate) mod pager;

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::cell::Cell;
use core::mem::MaybeUninit;
use core::ptr::NonNull;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;

use crate::backing::attachments::Attachment;
use crate::backing::object_core::{ObjectCore, PinnedObject};
use knee_sync::Platform;

use crate::allocate::try_box_uninit;
use crate::error::OutOfMemory;
use crate::machine::Machine;
use crate::needed::Needed;
use crate::page::{Page, Pages};
use crate::tree::Tree;
use crate::tree::attributes::{Attributes, BackingId};

/// Whether writes through a mapping of an object are visible in the object's other mappings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sharing {
    /// Writes are visible in all mappings (`MAP_SHARED`).
    Shared,
    /// A write breaks copy-on-write: the space gets a page of its own (`MAP_PRIVATE`).
    Private,
}

/// A backing records which object a mapping maps, which of the object's pages it maps, and at which
/// addresses. Each operation that maps pages of an object creates one backing. A backing is never split, even
/// if parts of the mapping are unmapped or protected later (DragonFly's `vm_map_backing`).
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Backing {
    attachment: Attachment,
    object: NonNull<ObjectCore>,
    pub(crate) sharing: Sharing,
    /// Number of pages that the backing still maps. Changes only while the nodes of the affected pages are
    /// locked.
    mapped: AtomicU64,
    /// `None` unless the backing is [marked](Marked). After [`Marked::add`], this pointer points to the
    /// backing itself; after [`Marked::copy`], it points to the backing's copy.
    copy: Cell<Option<NonNull<Backing>>>,
    /// Whether a single operation unmapped all pages. Set by the operation that unmaps the last page.
    is_whole: Cell<bool>,
    /// Link of [`Marked`].
    next_marked: Cell<Option<NonNull<Backing>>>,
    /// Link of [`Backings`].
    next: Cell<Option<NonNull<Backing>>>,
}

// SAFETY: the attachment's cells are accessed only under its shard's lock. `copy` and `next_marked` are
// accessed only by the owner of a [`Marked`] set, and a space has at most one such set. `is_whole` and `next`
// are accessed only by the operation that unmaps the last page. All other fields are atomic or constant.
unsafe impl Sync for Backing {}

/// The backing with this id.
fn pointer(id: BackingId) -> NonNull<Backing> {
    id.pointer().cast()
}

impl Backing {
    /// A backing that maps pages of the object, starting with `first`, at `pages` of the space that owns
    /// `tree`.
    pub(crate) fn new(
        object: NonNull<ObjectCore>,
        first: u64,
        pages: Pages,
        tree: NonNull<Tree>,
        sharing: Sharing,
    ) -> Backing {
        Backing {
            attachment: Attachment::new(pages, first, tree),
            object,
            sharing,
            mapped: AtomicU64::new(pages.count()),
            copy: Cell::new(None),
            is_whole: Cell::new(false),
            next_marked: Cell::new(None),
            next: Cell::new(None),
        }
    }

    /// The backing's id in [`Attributes`].
    pub(crate) fn id(backing: NonNull<Backing>) -> BackingId {
        BackingId::new(backing.cast())
    }

    /// The attachment of the backing with this id.
    pub(crate) fn attachment(id: BackingId) -> NonNull<Attachment> {
        pointer(id).cast()
    }

    /// The backing of pages with these attributes, if they have one.
    ///
    /// # Safety
    /// The backing must map at least one page for as long as the result is used.
    pub(crate) unsafe fn of<'a>(attributes: Attributes) -> Option<&'a Backing> {
        // SAFETY: the caller guarantees that the backing maps a page while the result is used. A backing
        // lives as long as it maps a page.
        attributes.backing.map(|id| unsafe { pointer(id).as_ref() })
    }

    /// A copy of this backing for the fork that owns `tree`. The caller will copy the PTEs to that tree.
    pub(crate) fn copied(&self, tree: NonNull<Tree>) -> Backing {
        let copy = self.at(self.index(self.pages().start), self.pages(), tree);
        copy.set_mapped(self.mapped());
        copy
    }

    /// A backing that maps pages of the same object, starting with `first`, at `pages` of the space that
    /// owns `tree`.
    pub(crate) fn at(&self, first: u64, pages: Pages, tree: NonNull<Tree>) -> Backing {
        Backing::new(self.object, first, pages, tree, self.sharing)
    }

    /// The pages that the backing mapped originally.
    pub(crate) fn pages(&self) -> Pages {
        self.attachment.pages()
    }

    /// Number of pages that the backing still maps. The caller must have locked all nodes of these pages.
    pub(crate) fn mapped(&self) -> u64 {
        self.mapped.load(Relaxed)
    }

    /// Sets the number of pages that the backing maps. The caller must have locked all nodes of these
    /// pages.
    pub(crate) fn set_mapped(&self, pages: u64) {
        self.mapped.store(pages, Relaxed);
    }

    /// Whether several operations unmapped parts of the backing, so that a shootdown of some part may still
    /// be in progress. Must be called only after the last page was unmapped.
    pub(crate) fn has_gone_in_parts(&self) -> bool {
        !self.is_whole.get()
    }

    /// The object.
    pub(crate) fn object(&self) -> &ObjectCore {
        // SAFETY: the object lives as long as it has attachments.
        unsafe { self.object.as_ref() }
    }

    /// The object's page that is mapped at `page`.
    #[inline]
    pub(crate) fn index(&self, page: Page) -> u64 {
        self.attachment.index(page)
    }

    /// Subtracts `pages` from the count of mapped pages. Returns whether the count is now 0.
    pub(crate) fn unmapped(&self, pages: u64) -> bool {
        // An operation that unmaps all remaining pages holds the locks of all their nodes. So nobody else can
        // change the count, and a load is enough. Only partial unmaps write to the shared cache line.
        let is_none =
            self.mapped.load(Relaxed) == pages || self.mapped.fetch_sub(pages, Relaxed) == pages;
        if is_none {
            self.is_whole.set(pages == self.pages().count());
        }
        is_none
    }

    /// Adds the backing to the attachments of its object.
    ///
    /// # Safety
    /// The caller must have a reference to the object. If the backing is a copy, it is enough that the
    /// original backing is attached. The new backing must stay valid until it is passed to
    /// [`detach`](Backing::detach).
    pub(crate) unsafe fn attach(
        backing: NonNull<Backing>,
        cpu: usize,
        platform: &impl Platform,
        is_copy: bool,
    ) {
        // SAFETY: the caller guarantees that the backing and the object are valid.
        unsafe {
            let attachments = &backing.as_ref().object().attachments;
            attachments.attach(cpu, platform, backing.cast(), is_copy);
        }
    }

    /// Removes the backing from the attachments of its object, and frees the backing. If the backing had the
    /// object's last reference, frees the object, too.
    ///
    /// # Safety
    /// The backing must be attached, must have come from a box, and must have no other user. It must no
    /// longer map any page, and all CPUs must have flushed the pages that it mapped.
    pub(crate) unsafe fn detach<M: Machine>(backing: NonNull<Backing>, machine: &M) {
        // SAFETY: the caller guarantees that the backing is attached, comes from a box and has no other
        // user. `Attachments::detach` returns true only for the last reference, whose owner must free the
        // object.
        unsafe {
            let object = backing.as_ref().object;
            let platform = machine.epoch().platform();
            let is_last = object.as_ref().attachments.detach(backing.cast(), platform);
            drop(Box::from_raw(backing.as_ptr()));
            if is_last {
                ObjectCore::free(object, machine);
            }
        }
    }
}

/// Memory for backings, allocated before an operation takes locks.
#[derive(Debug, Default)]
pub(crate) struct BackingPool {
    // Boxed, because backings must not move.
    #[expect(clippy::vec_box)]
    backings: Vec<Box<MaybeUninit<Backing>>>,
}

impl BackingPool {
    /// Moves `backing` into a box from the pool, which gives it a stable address.
    ///
    /// # Errors
    /// [`Needed::Backings`] if the pool is empty.
    pub(crate) fn take(&mut self, backing: Backing) -> Result<NonNull<Backing>, Needed> {
        let mut new = self.backings.pop().ok_or(Needed::Backings(1))?;
        new.write(backing);
        // SAFETY: `new` was initialized above.
        Ok(NonNull::from(Box::leak(unsafe { new.assume_init() })))
    }

    /// Succeeds if the pool has at least `count` backings.
    pub(crate) fn has(&self, count: usize) -> Result<(), Needed> {
        if self.backings.len() >= count { Ok(()) } else { Err(Needed::Backings(count)) }
    }

    /// Allocates backings until the pool has `count` of them.
    pub(crate) fn refill(&mut self, count: usize) -> Result<(), OutOfMemory> {
        self.backings.try_reserve(count)?;
        while self.backings.len() < count {
            self.backings.push(try_box_uninit()?);
        }
        Ok(())
    }
}

/// A list of backings that no longer map any page.
#[derive(Debug, Default)]
pub(crate) struct Backings {
    first: Option<NonNull<Backing>>,
}

impl Backings {
    /// # Safety
    /// `backing` must be in no list, and must outlive this list.
    unsafe fn push(&mut self, backing: NonNull<Backing>) {
        // SAFETY: the caller guarantees that `backing` is valid.
        unsafe { backing.as_ref() }.next.set(self.first);
        self.first = Some(backing);
    }

    /// Records that `pages` pages with these attributes were unmapped. Adds their backing to the list if the
    /// backing no longer maps any page.
    ///
    /// # Safety
    /// The pages must have been mapped, and their nodes must be locked. The backing must outlive the
    /// list.
    #[inline]
    pub(crate) unsafe fn unmapped(&mut self, attributes: Attributes, pages: u64) {
        // SAFETY: the caller guarantees that the backing mapped these pages until now and outlives the
        // list. Only the operation that unmaps the last page adds the backing to a list.
        unsafe {
            if let Some(backing) = attributes.backing.map(pointer)
                && backing.as_ref().unmapped(pages)
            {
                self.push(backing);
            }
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    pub(crate) fn pop(&mut self) -> Option<NonNull<Backing>> {
        let first = self.first?;
        // SAFETY: backings outlive the list, as `push` requires.
        self.first = unsafe { first.as_ref() }.next.take();
        Some(first)
    }
}

/// A set of backings of a space. A space has at most one such set at a time: the operation that creates the
/// set must have exclusive access to the whole space, or must hold the lock that excludes other
/// [moves](crate::Space::remap).
#[derive(Debug, Default)]
pub(crate) struct Marked {
    first: Option<NonNull<Backing>>,
    count: usize,
}

impl Marked {
    /// Adds the backing of mapped pages, unless it is marked already.
    ///
    /// # Safety
    /// The pages must stay mapped for the lifetime of the set. No other set may contain backings of the
    /// space.
    pub(crate) unsafe fn add(&mut self, attributes: Attributes) {
        let Some(backing) = attributes.backing.map(pointer) else { return };
        // SAFETY: the caller guarantees that the backing's pages stay mapped and that no other set of the
        // space exists.
        unsafe {
            if backing.as_ref().copy.get().is_none() {
                backing.as_ref().copy.set(Some(backing));
                backing.as_ref().next_marked.set(self.first);
                self.first = Some(backing);
                self.count += 1;
            }
        }
    }

    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Returns an object that throttles forks now and is mapped by one of these backings, if there is one.
    pub(crate) fn throttled<'m, M: Machine>(&self, machine: &'m M) -> Option<PinnedObject<'m, M>> {
        let mut next = self.first;
        while let Some(backing) = next {
            // SAFETY: marked backings outlive the set, as `add` requires.
            let backing = unsafe { backing.as_ref() };
            if backing.object().attachments.forks_throttled() {
                return Some(PinnedObject::new(backing.object(), machine));
            }
            next = backing.next_marked.get();
        }
        None
    }

    /// Calls `copy` for each backing, and records the result as its copy.
    pub(crate) fn copy(&self, mut copy: impl FnMut(&Backing) -> NonNull<Backing>) {
        let mut next = self.first;
        while let Some(backing) = next {
            // SAFETY: marked backings outlive the set, as `add` requires.
            let backing = unsafe { backing.as_ref() };
            backing.copy.set(Some(copy(backing)));
            next = backing.next_marked.get();
        }
    }

    /// Turns the set into a list. All pages of these backings must have been unmapped.
    pub(crate) fn into_backings(mut self) -> Backings {
        let mut all = Backings::default();
        while let Some(backing) = self.pop() {
            // SAFETY: the backing is in no other list, and lives until it is detached.
            unsafe { all.push(backing) };
        }
        all
    }

    fn pop(&mut self) -> Option<NonNull<Backing>> {
        let first = self.first?;
        // SAFETY: marked backings outlive the set, as `add` requires.
        let backing = unsafe { first.as_ref() };
        self.first = backing.next_marked.take();
        backing.copy.set(None);
        Some(first)
    }
}

/// Clears all marks.
impl Drop for Marked {
    fn drop(&mut self) {
        while self.pop().is_some() {}
    }
}

/// Turns the attributes of a page into those of the same page in the fork.
///
/// # Safety
/// The backing, if any, must be [marked](Marked::add) and [copied](Marked::copy).
pub(crate) unsafe fn copied(attributes: Attributes) -> Attributes {
    // SAFETY: the caller guarantees that the backing is marked, and a marked backing is valid.
    let copy = |id: BackingId| unsafe { pointer(id).as_ref() }.copy.get();
    let backing =
        attributes.backing.map(|id| Backing::id(copy(id).expect("the backing has a copy")));
    Attributes { backing, ..attributes }
}
