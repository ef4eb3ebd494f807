//! What provides the pages of a mapping that are not the space's own.

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
use crate::page::Pages;
use crate::tree::Tree;
use crate::tree::attributes::{Attributes, BackingId};

/// What becomes of writes to pages of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sharing {
    /// All see them, `MAP_SHARED`.
    Shared,
    /// The page becomes the space's own, `MAP_PRIVATE`.
    Private,
}

/// One for each mapping operation, whatever becomes of parts of it later (DragonFly's `vm_map_backing`).
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Backing {
    attachment: Attachment,
    object: NonNull<ObjectCore>,
    pub(crate) sharing: Sharing,
    /// Pages that are mapped by it. Changed under the locks of nodes that have them.
    mapped: AtomicU64,
    /// What a walk over [some or all](Marked) backings of a space has.
    copy: Cell<Option<NonNull<Backing>>>,
    /// All that was ever mapped by it was unmapped at once. Of who has found that nothing is.
    is_whole: Cell<bool>,
    /// The next of such a walk.
    next_marked: Cell<Option<NonNull<Backing>>>,
    /// The next of those by which nothing is mapped.
    next: Cell<Option<NonNull<Backing>>>,
}

// SAFETY: cells are used under locks, as said there.
unsafe impl Sync for Backing {}

/// The backing that has this id.
fn pointer(id: BackingId) -> NonNull<Backing> {
    id.pointer().cast()
}

impl Backing {
    /// Pages of an object from `first` on, at these pages of a space.
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

    /// What stands for it in [`Attributes`].
    pub(crate) fn id(backing: NonNull<Backing>) -> BackingId {
        BackingId::new(backing.cast())
    }

    /// The attachment of the backing with this id.
    pub(crate) fn attachment(id: BackingId) -> NonNull<Attachment> {
        pointer(id).cast()
    }

    /// The backing of pages, if they have one.
    ///
    /// # Safety
    /// A page is mapped by it, and that stays so as long as the result is used.
    pub(crate) unsafe fn of<'a>(attributes: Attributes) -> Option<&'a Backing> {
        // SAFETY: a backing is there as long as pages are mapped by it, as the caller promises.
        attributes.backing.map(|id| unsafe { pointer(id).as_ref() })
    }

    /// The same for another space, whose entries will be copies.
    pub(crate) fn copied(&self, tree: NonNull<Tree>) -> Backing {
        let copy = self.at(self.index(self.pages().start), self.pages(), tree);
        copy.set_mapped(self.mapped());
        copy
    }

    /// Other pages of the same object, at other pages of a space.
    pub(crate) fn at(&self, first: u64, pages: Pages, tree: NonNull<Tree>) -> Backing {
        Backing::new(self.object, first, pages, tree, self.sharing)
    }

    /// Where it was mapped.
    pub(crate) fn pages(&self) -> Pages {
        self.attachment.pages()
    }

    /// How many pages are mapped by it. Under the locks of all nodes that have them.
    pub(crate) fn mapped(&self) -> u64 {
        self.mapped.load(Relaxed)
    }

    /// As said by the caller, who has these locks.
    pub(crate) fn set_mapped(&self, pages: u64) {
        self.mapped.store(pages, Relaxed);
    }

    /// Whether parts of it may have been unmapped by others, whose CPUs have not forgotten them yet. Nothing is
    /// mapped by it any more.
    pub(crate) fn has_gone_in_parts(&self) -> bool {
        !self.is_whole.get()
    }

    /// The object.
    pub(crate) fn object(&self) -> &ObjectCore {
        // SAFETY: it is there as long as it has attachments.
        unsafe { self.object.as_ref() }
    }

    /// The object's page that is mapped there.
    #[inline]
    pub(crate) fn index(&self, page: u64) -> u64 {
        self.attachment.index(page)
    }

    /// So many pages are not mapped by it any more. Whether none is.
    pub(crate) fn unmapped(&self, pages: u64) -> bool {
        // Who unmaps all at once has all locks: to read is enough, and parts that CPUs unmap share this line.
        let is_none =
            self.mapped.load(Relaxed) == pages || self.mapped.fetch_sub(pages, Relaxed) == pages;
        if is_none {
            self.is_whole.set(pages == self.pages().count());
        }
        is_none
    }

    /// Has it found by the object.
    ///
    /// # Safety
    /// The caller holds the object, or it is attached to this tree's parent. It stays until it is given to
    /// [`detach`](Backing::detach).
    pub(crate) unsafe fn attach(
        backing: NonNull<Backing>,
        cpu: usize,
        platform: &impl Platform,
        is_copy: bool,
    ) {
        // SAFETY: the caller promises it.
        unsafe {
            let attachments = &backing.as_ref().object().attachments;
            attachments.attach(cpu, platform, backing.cast(), is_copy);
        }
    }

    /// Takes it from the object, and frees it; and the object, if that was all.
    ///
    /// # Safety
    /// It is attached, came from a box, and nobody will look at it. No page is mapped by it, and all
    /// CPUs know.
    pub(crate) unsafe fn detach<M: Machine>(backing: NonNull<Backing>, machine: &M) {
        // SAFETY: said by the caller.
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
    // Boxed, as backings stay where they are.
    #[expect(clippy::vec_box)]
    backings: Vec<Box<MaybeUninit<Backing>>>,
}

impl BackingPool {
    /// A backing that stays where it is.
    pub(crate) fn take(&mut self, backing: Backing) -> Result<NonNull<Backing>, Needed> {
        let mut new = self.backings.pop().ok_or(Needed::Backings(1))?;
        new.write(backing);
        // SAFETY: it is written.
        Ok(NonNull::from(Box::leak(unsafe { new.assume_init() })))
    }

    /// Whether there are so many.
    pub(crate) fn has(&self, count: usize) -> Result<(), Needed> {
        if self.backings.len() >= count { Ok(()) } else { Err(Needed::Backings(count)) }
    }

    /// Allocates until there is memory for this many.
    pub(crate) fn refill(&mut self, count: usize) -> Result<(), OutOfMemory> {
        self.backings.try_reserve(count)?;
        while self.backings.len() < count {
            self.backings.push(try_box_uninit()?);
        }
        Ok(())
    }
}

/// Backings by which nothing is mapped any more.
#[derive(Debug, Default)]
pub(crate) struct Backings {
    first: Option<NonNull<Backing>>,
}

impl Backings {
    /// # Safety
    /// It is in no list, and is there as long as this.
    unsafe fn push(&mut self, backing: NonNull<Backing>) {
        // SAFETY: said by the caller.
        unsafe { backing.as_ref() }.next.set(self.first);
        self.first = Some(backing);
    }

    /// These pages are not mapped by what the attributes say any more. If nothing is mapped by the backing then, it
    /// joins the list.
    ///
    /// # Safety
    /// They were, their nodes are locked, and the backing is there as long as this.
    #[inline]
    pub(crate) unsafe fn unmapped(&mut self, attributes: Attributes, pages: u64) {
        // SAFETY: the caller promises it.
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
        // SAFETY: it is there as long as it is in the list.
        self.first = unsafe { first.as_ref() }.next.take();
        Some(first)
    }
}

/// Backings of a space, each of them once: while the space is locked as a whole, or by the one who
/// [moves](crate::Space::remap) pages of it.
#[derive(Debug, Default)]
pub(crate) struct Marked {
    first: Option<NonNull<Backing>>,
    count: usize,
}

impl Marked {
    /// Adds the backing of pages that are mapped.
    ///
    /// # Safety
    /// They are mapped, and stay so as long as this. Nobody else marks backings of the space.
    pub(crate) unsafe fn add(&mut self, attributes: Attributes) {
        let Some(backing) = attributes.backing.map(pointer) else { return };
        // SAFETY: said by the caller.
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

    /// An object that takes no copies for a while.
    pub(crate) fn throttled<'m, M: Machine>(&self, machine: &'m M) -> Option<PinnedObject<'m, M>> {
        let mut next = self.first;
        while let Some(backing) = next {
            // SAFETY: it is there as long as this.
            let backing = unsafe { backing.as_ref() };
            if backing.object().attachments.forks_throttled() {
                return Some(PinnedObject::new(backing.object(), machine));
            }
            next = backing.next_marked.get();
        }
        None
    }

    /// Gives each a copy.
    pub(crate) fn copy(&self, mut copy: impl FnMut(&Backing) -> NonNull<Backing>) {
        let mut next = self.first;
        while let Some(backing) = next {
            // SAFETY: it is there as long as this.
            let backing = unsafe { backing.as_ref() };
            backing.copy.set(Some(copy(backing)));
            next = backing.next_marked.get();
        }
    }

    /// All of them, by which nothing is mapped any more.
    pub(crate) fn into_backings(mut self) -> Backings {
        let mut all = Backings::default();
        while let Some(backing) = self.pop() {
            // SAFETY: it is in no other list, and there until somebody detaches it.
            unsafe { all.push(backing) };
        }
        all
    }

    fn pop(&mut self) -> Option<NonNull<Backing>> {
        let first = self.first?;
        // SAFETY: it is there as long as this.
        let backing = unsafe { first.as_ref() };
        self.first = backing.next_marked.take();
        backing.copy.set(None);
        Some(first)
    }
}

/// Who comes next finds none marked.
impl Drop for Marked {
    fn drop(&mut self) {
        while self.pop().is_some() {}
    }
}

/// The same of a copy of the space, for attributes that were [marked](Marked::add) and [copied](Marked::copy).
///
/// # Safety
/// They are.
pub(crate) unsafe fn copied(attributes: Attributes) -> Attributes {
    // SAFETY: said by the caller.
    let copy = |id: BackingId| unsafe { pointer(id).as_ref() }.copy.get();
    let backing = attributes.backing.map(|id| Backing::id(copy(id).expect("it was marked")));
    Attributes { backing, ..attributes }
}
