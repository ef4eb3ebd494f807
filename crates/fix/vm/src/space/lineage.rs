//! Reverse mapping of anonymous pages: which spaces may have a page (compare Linux's `anon_vma`).
//!
//! After a fork, the space and its copy share each page until one of the two writes to the page. Each page
//! has an *origin*, which is the space that first had the page, and a page number in the origin. In a copy of
//! the space, the page has the same origin and the same page number. If a space may have pages of an origin,
//! the space is attached to the origin: once, not once per mapping or page.
//! [`Space::sharers`](crate::Space::sharers) searches the page tables of these spaces for a page (compare
//! DragonFly's `vm_map_backing`, 2019).
//!
//! A copy of a copy may have pages whose origin is the first space, and others whose origin is the first
//! copy. The number of a space's origins is limited. If a space that has reached the limit is forked, it is
//! first detached from the origins of which it no longer has pages. If the space still has pages of every
//! origin, it becomes the origin of all its pages (`vm_fault_collapse`). To do so, it copies each shared page
//! that has another origin.

use alloc::boxed::Box;
use core::cell::UnsafeCell;
use core::ptr::NonNull;

use knee_sync::Platform;

use crate::allocate::try_box;
use crate::backing::attachments::{Attachment, Attachments};
use crate::cpu::Cpu;
use crate::error::OutOfMemory;
use crate::machine::Machine;
use crate::machine::frame_meta::OriginId;
use crate::page::{Page, Pages};
use crate::tree::Tree;

/// The maximum number of origins of a space's pages, including the space's own origin: DragonFly's
/// `vm.map_backing_limit`.
const MOST: usize = 5;

/// A space in its role as the origin of pages. The origin lives while any space is attached to it or a
/// reference to it is held.
#[derive(Debug)]
pub(crate) struct Origin {
    attachments: Attachments,
}

/// Attachment of a space to an origin. The space may have pages of that origin.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct OriginLink {
    attachment: Attachment,
    origin: NonNull<Origin>,
}

/// The origins of a space's pages.
#[derive(Debug)]
pub(crate) struct Lineage {
    own: NonNull<Origin>,
    /// The first entry links to the space's own origin. Protected by the lock of the root.
    links: UnsafeCell<[Option<NonNull<OriginLink>>; MOST]>,
}

/// Preallocated links for a fork.
pub(crate) struct OriginLinks([Option<Box<OriginLink>>; MOST]);

impl OriginLinks {
    pub(crate) fn new() -> Result<OriginLinks, OutOfMemory> {
        let mut links = [const { None }; MOST];
        for link in &mut links {
            *link = Some(OriginLink::new()?);
        }
        Ok(OriginLinks(links))
    }
}

impl OriginLink {
    /// A link that has not [begun](OriginLink::begin).
    pub(crate) fn new() -> Result<Box<OriginLink>, OutOfMemory> {
        let attachment = Attachment::new(Pages::new(Page(0), 0), 0, NonNull::dangling());
        try_box(OriginLink { attachment, origin: NonNull::dangling() })
    }

    /// Attaches a space to an origin.
    ///
    /// # Safety
    /// During the call, a reference to the origin must be held, or a space must be attached to it. The
    /// tree must have a user until the link is [ended](OriginLink::end).
    unsafe fn begin<M: Machine>(
        mut self: Box<OriginLink>,
        origin: NonNull<Origin>,
        tree: NonNull<Tree>,
        cpu: &Cpu<'_, M>,
    ) -> NonNull<OriginLink> {
        // SAFETY: the caller guarantees that the origin is alive during the call, and that the tree stays
        // alive until `end`.
        unsafe {
            let attachment = Attachment::new(tree.as_ref().pages(), 0, tree);
            *self = OriginLink { attachment, origin };
            let link = NonNull::from(Box::leak(self));
            let attachments = &origin.as_ref().attachments;
            attachments.attach(cpu.number(), cpu.platform(), link.cast(), true);
            link
        }
    }

    /// # Safety
    /// The link must have [begun](OriginLink::begin). The space must no longer have pages of the origin, or
    /// must be about to be dropped.
    unsafe fn end(link: NonNull<OriginLink>, platform: &impl Platform) {
        // SAFETY: the caller guarantees that the link has begun, so it came from a box, and its attachment
        // keeps the origin alive. The last holder of an origin frees it.
        unsafe {
            let origin = link.as_ref().origin;
            let is_last = origin.as_ref().attachments.detach(link.cast(), platform);
            drop(Box::from_raw(link.as_ptr()));
            if is_last {
                drop(Box::from_raw(origin.as_ptr()));
            }
        }
    }
}

impl Lineage {
    /// The lineage of a new space, with its own origin.
    ///
    /// # Safety
    /// The tree must have a user until [`end`](Lineage::end).
    pub(crate) unsafe fn new<M: Machine>(
        tree: NonNull<Tree>,
        origin: Box<Origin>,
        link: Box<OriginLink>,
        cpu: &Cpu<'_, M>,
    ) -> Lineage {
        let own = NonNull::from(Box::leak(origin));
        let mut links = [None; MOST];
        // SAFETY: the caller keeps the tree alive until `end`. We hold a reference to the origin until
        // `close`.
        unsafe {
            links[0] = Some(link.begin(own, tree, cpu));
            let is_last = own.as_ref().attachments.close(cpu.platform());
            debug_assert!(!is_last, "the space is attached");
        }
        Lineage { own, links: UnsafeCell::new(links) }
    }

    /// The space's own origin.
    pub(crate) fn own(&self) -> OriginId {
        OriginId::new(self.own.cast())
    }

    /// Whether a fork of the space would have too many origins.
    ///
    /// # Safety
    /// The caller must hold the lock of the root.
    pub(crate) unsafe fn is_full(&self) -> bool {
        // SAFETY: the caller holds the lock of the root.
        unsafe { &*self.links.get() }.iter().all(Option::is_some)
    }

    /// Attaches a new fork to all origins of this lineage, which must not be [full](Lineage::is_full).
    /// `copy` is the lineage of the fork, and `tree` its tree.
    ///
    /// # Safety
    /// The caller must hold the locks of both roots. The copy must be new: no other CPU may use it, except
    /// those that find it through these attachments and wait for the lock of its root.
    pub(crate) unsafe fn inherit<M: Machine>(
        &self,
        copy: &Lineage,
        tree: NonNull<Tree>,
        mut links: OriginLinks,
        cpu: &Cpu<'_, M>,
    ) {
        // SAFETY: the caller holds the lock of the root.
        let all = unsafe { &*self.links.get() };
        for (place, link) in all.iter().flatten().enumerate() {
            let new = links.0[place].take().expect("there is a link for each origin");
            // SAFETY: this space is attached to the origin, and the caller holds the lock of the copy's
            // root.
            unsafe {
                let new = new.begin(link.as_ref().origin, tree, cpu);
                (*copy.links.get())[place + 1] = Some(new);
            }
        }
    }

    /// Detaches the space from the origins of which it has no pages, except from its own. `origins` calls its
    /// argument with the origin of each private page.
    ///
    /// # Safety
    /// `origins` must not leave out a private page of the space, and all nodes must be locked.
    pub(crate) unsafe fn forget_unused(
        &self,
        origins: impl FnOnce(&mut dyn FnMut(OriginId)),
        platform: &impl Platform,
    ) {
        // SAFETY: the caller guarantees that the root is locked.
        let links = unsafe { &mut *self.links.get() };
        let mut used = [false; MOST];
        origins(&mut |origin| {
            let is_it = |link: &Option<NonNull<OriginLink>>| {
                // SAFETY: links in the lineage have begun, and have not ended.
                link.is_some_and(|link| unsafe { link.as_ref() }.origin.cast() == origin.pointer())
            };
            if let Some(place) = links.iter().position(is_it) {
                used[place] = true;
            }
        });
        let unused = links.iter_mut().zip(used).skip(1).filter(|(_, is_used)| !is_used);
        for link in unused.filter_map(|(link, _)| link.take()) {
            // SAFETY: the link has begun, and the space has no pages of the link's origin.
            unsafe { OriginLink::end(link, platform) };
        }
    }

    /// Detaches the space from all origins except its own.
    ///
    /// # Safety
    /// All pages of the space must have the space's own origin, and the root must be locked.
    pub(crate) unsafe fn forget_others(&self, platform: &impl Platform) {
        // SAFETY: the caller guarantees that the root is locked and that the space has no pages of other
        // origins.
        unsafe { self.end_from(1, platform) };
    }

    /// Detaches the space, which is about to be dropped, from all origins.
    ///
    /// # Safety
    /// The caller must have exclusive access to the space.
    pub(crate) unsafe fn end(&self, platform: &impl Platform) {
        // SAFETY: the caller guarantees exclusive access.
        unsafe { self.end_from(0, platform) };
    }

    /// # Safety
    /// The caller must hold the lock of the root or have exclusive access to the space. The space must have
    /// no pages of the origins whose index is `first` or greater, or must be about to be dropped.
    unsafe fn end_from(&self, first: usize, platform: &impl Platform) {
        // SAFETY: the caller holds the lock of the root or has exclusive access.
        for link in unsafe { &mut *self.links.get() }[first..].iter_mut().filter_map(Option::take) {
            // SAFETY: links in the lineage have begun. The caller guarantees that the space has no pages of
            // these origins, or is about to be dropped.
            unsafe { OriginLink::end(link, platform) };
        }
    }
}

impl Origin {
    /// Returns a new origin. The caller holds the first reference to it.
    pub(crate) fn new() -> Result<Box<Origin>, OutOfMemory> {
        try_box(Origin { attachments: Attachments::new(1)? })
    }
}

/// A reference to an origin.
pub(crate) struct PinnedOrigin(NonNull<Origin>);

impl PinnedOrigin {
    /// # Safety
    /// A space must be attached to the origin during the call.
    pub(crate) unsafe fn new(origin: OriginId) -> PinnedOrigin {
        let origin: NonNull<Origin> = origin.pointer().cast();
        // SAFETY: the caller guarantees that a space is attached to the origin, and an origin lives while a
        // space is attached to it.
        unsafe { origin.as_ref() }.attachments.get_ref();
        PinnedOrigin(origin)
    }

    pub(crate) fn attachments(&self) -> &Attachments {
        // SAFETY: `self` holds a reference.
        unsafe { &self.0.as_ref().attachments }
    }
}

impl Drop for PinnedOrigin {
    fn drop(&mut self) {
        if self.attachments().put_refs(1) {
            // SAFETY: origins are boxes, and this was the last reference.
            drop(unsafe { Box::from_raw(self.0.as_ptr()) });
        }
    }
}
