//! Which spaces may have a page that one has for itself.
//!
//! A space that is copied shares its pages with the copy until one of them writes. Each of its pages has an
//! *origin*, the space in which it came to be, and a page number there, which is the same in copies. To an
//! origin all spaces are attached that may have any of its pages, once each and not once for each mapping or
//! page: so who has a page is found by a look into the tables of these spaces (DragonFly 2019,
//! `vm_map_backing`; a space as a whole is one backing here).
//!
//! A copy of a copy of a copy has pages of all of them. So that such chains have an end, a space that has
//! reached it makes what it has of others its own before it is copied again: it copies what others have, too,
//! and says of the rest that it came to be here (`vm_fault_collapse`).

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
use crate::page::Pages;
use crate::tree::Tree;

/// Origins that the pages of a space can have, its own included: DragonFly's `vm.map_backing_limit`.
const MOST: usize = 5;

/// A space as its pages know it. It is there as long as a space is attached.
#[derive(Debug)]
pub(crate) struct Origin {
    attachments: Attachments,
}

/// That a space may have pages of an origin.
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
    /// The first is that to its own. Under the lock of the root.
    links: UnsafeCell<[Option<NonNull<OriginLink>>; MOST]>,
}

/// Memory for those of a copy.
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
    /// One that is to begin.
    pub(crate) fn new() -> Result<Box<OriginLink>, OutOfMemory> {
        let attachment = Attachment::new(Pages::new(0, 0), 0, NonNull::dangling());
        try_box(OriginLink { attachment, origin: NonNull::dangling() })
    }

    /// Attaches a space to an origin.
    ///
    /// # Safety
    /// The origin has a holder, or a space attached that stays meanwhile; the tree has a user until the link is
    /// [ended](OriginLink::end).
    unsafe fn begin<M: Machine>(
        mut self: Box<OriginLink>,
        origin: NonNull<Origin>,
        tree: NonNull<Tree>,
        cpu: &Cpu<'_, M>,
    ) -> NonNull<OriginLink> {
        // SAFETY: said by the caller.
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
    /// It has [begun](OriginLink::begin), and the space has no pages of the origin any more, or will not tell.
    unsafe fn end(link: NonNull<OriginLink>, platform: &impl Platform) {
        // SAFETY: said by the caller.
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
    /// That of a space that begins, and whose pages begin with it.
    ///
    /// # Safety
    /// The tree has a user until the [end](Lineage::end).
    pub(crate) unsafe fn new<M: Machine>(
        tree: NonNull<Tree>,
        origin: Box<Origin>,
        link: Box<OriginLink>,
        cpu: &Cpu<'_, M>,
    ) -> Lineage {
        let own = NonNull::from(Box::leak(origin));
        let mut links = [None; MOST];
        // SAFETY: the caller promises it; we hold the origin.
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

    /// Whether a copy would have too many origins.
    ///
    /// # Safety
    /// Under the lock of the root.
    pub(crate) unsafe fn is_full(&self) -> bool {
        // SAFETY: said by the caller.
        unsafe { &*self.links.get() }.iter().all(Option::is_some)
    }

    /// The pages of a copy, of this lineage and tree, may be of all origins that these are of. It is not
    /// [full](Lineage::is_full).
    ///
    /// # Safety
    /// Under the locks of the roots of both. The copy has just begun, and only the caller has it, and those that come
    /// by what is attached here and wait for the lock.
    pub(crate) unsafe fn inherit<M: Machine>(
        &self,
        copy: &Lineage,
        tree: NonNull<Tree>,
        mut links: OriginLinks,
        cpu: &Cpu<'_, M>,
    ) {
        // SAFETY: the caller promises it.
        let all = unsafe { &*self.links.get() };
        for (place, link) in all.iter().flatten().enumerate() {
            let new = links.0[place].take().expect("links are there");
            // SAFETY: this one's space is attached to the origin, and the copy's root is locked.
            unsafe {
                let new = new.begin(link.as_ref().origin, tree, cpu);
                (*copy.links.get())[place + 1] = Some(new);
            }
        }
    }

    /// All pages of the space are of its own origin.
    ///
    /// # Safety
    /// They are, and the root is locked.
    pub(crate) unsafe fn forget_others(&self, platform: &impl Platform) {
        // SAFETY: said by the caller.
        unsafe { self.end_from(1, platform) };
    }

    /// The space ends.
    ///
    /// # Safety
    /// Nobody else has its pages.
    pub(crate) unsafe fn end(&self, platform: &impl Platform) {
        // SAFETY: said by the caller.
        unsafe { self.end_from(0, platform) };
    }

    /// # Safety
    /// Under the lock of the root, or by who has the space alone; the space has no pages of these origins, or
    /// will not tell.
    unsafe fn end_from(&self, first: usize, platform: &impl Platform) {
        // SAFETY: said by the caller.
        for link in unsafe { &mut *self.links.get() }[first..].iter_mut().filter_map(Option::take) {
            // SAFETY: as above.
            unsafe { OriginLink::end(link, platform) };
        }
    }
}

impl Origin {
    /// One that the caller holds.
    pub(crate) fn new() -> Result<Box<Origin>, OutOfMemory> {
        try_box(Origin { attachments: Attachments::new(1)? })
    }
}

/// An origin that is held for a while.
pub(crate) struct PinnedOrigin(NonNull<Origin>);

impl PinnedOrigin {
    /// # Safety
    /// A space is attached to it meanwhile.
    pub(crate) unsafe fn new(origin: OriginId) -> PinnedOrigin {
        let origin: NonNull<Origin> = origin.pointer().cast();
        // SAFETY: an origin is there as long as a space is attached, as the caller promises.
        unsafe { origin.as_ref() }.attachments.get_ref();
        PinnedOrigin(origin)
    }

    pub(crate) fn attachments(&self) -> &Attachments {
        // SAFETY: we hold it.
        unsafe { &self.0.as_ref().attachments }
    }
}

impl Drop for PinnedOrigin {
    fn drop(&mut self) {
        if self.attachments().put_refs(1) {
            // SAFETY: it came from a box, and nobody holds it.
            drop(unsafe { Box::from_raw(self.0.as_ptr()) });
        }
    }
}
